"""Frame times, picking and lasso of the map in headless Chromium, with synthetic points.

    python benchmarks/map_speed.py --points 100000 1000000

The points are a mixture of 50 Gaussians. At rest, all points are drawn, in slices; each slice is timed until its pixels
can be read. While the map moves, it draws a sample whose size adapts to the machine; frame times are the intervals
between calls of requestAnimationFrame over five seconds of panning and zooming. The lasso encloses about 10,000 points.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import shutil
import subprocess
import tempfile
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import as_file, files
from queue import Queue
from typing import Any

PAGE = """<!doctype html><meta charset="utf-8"><style>body { margin: 0 }</style><canvas></canvas><script type="module">
import { FRONT, SELECTED, scatter } from "/gl.js";
import { pointIndex } from "/points.js";

const options = new URLSearchParams(location.search), n = Number(options.get("points"));
const canvas = document.querySelector("canvas"), getContext = canvas.getContext.bind(canvas);
[canvas.width, canvas.height] = [1200, 680];
canvas.getContext = (kind, settings) => (kind === options.get("renderer") ? getContext(kind, settings) : null);

let seed = 1;
const random = () => (seed = (seed * 16807) % 2147483647) / 2147483647;
const normal = () => Math.sqrt(-2 * Math.log(random())) * Math.cos(2 * Math.PI * random());
const centers = Array.from({ length: 50 }, () => [0.1 + 0.8 * random(), 0.1 + 0.8 * random()]);
const positions = new Uint16Array(2 * n), labels = new Uint16Array(n), flags = new Uint8Array(n).fill(FRONT);
for (let row = 0; row < n; row++) {
  labels[row] = row * 50 / n;
  for (const axis of [0, 1]) {
    positions[2 * row + axis] = 65535 * Math.min(1, Math.max(0, centers[labels[row]][axis] + 0.05 * normal()));
  }
}

const median = (values) => values.sort((a, b) => a - b)[values.length >> 1];
const timed = (repeats, action) => median(Array.from({ length: repeats }, () => {
  const begin = performance.now();
  action();
  return performance.now() - begin;
}));
const frame = () => new Promise(requestAnimationFrame);

let points;
const result = { points: n, index_ms: timed(1, () => { points = pointIndex(positions); }) };
const plot = scatter(canvas, points, ["#5d4ebb", "#a4cb55", "#ad3210", "#f49cbe", "#21cef8", "#19b87b"]);
result.renderer = plot.kind;
const gl = canvas.getContext("webgl2");
if (gl) {
  const names = gl.getExtension("WEBGL_debug_renderer_info");
  result.device = gl.getParameter(names ? names.UNMASKED_RENDERER_WEBGL : gl.RENDERER);
}
const finish = () => {
  if (gl) gl.readPixels(0, 0, 1, 1, gl.RGBA, gl.UNSIGNED_BYTE, new Uint8Array(4));
  else canvas.getContext("2d").getImageData(0, 0, 1, 1);
};
const view = {
  x: 0.5, y: 0.5, spanX: 1100, spanY: 610, width: 1200, height: 680, radius: n > 200000 ? 1.3 : 1.6, ratio: 1,
  opacity: 0.75, ink: [0, 0, 0], dimmed: [0.8, 0.8, 0.8], moving: false,
};
result.labels_ms = timed(3, () => plot.setState(labels, flags));
plot.draw(view); // compiles the shaders
finish();
const slices = [];
result.rest_ms = timed(5, () => {
  for (let more = true, continued = false; more; continued = true) {
    slices.push(timed(1, () => {
      ({ more } = plot.draw(view, continued));
      finish();
    }));
  }
});
result.slice_ms = Math.max(...slices);

for (let i = 0; i < 5; i++) await frame();
const intervals = [], drawn = [], begin = performance.now();
for (let last = begin; last - begin < 5000;) {
  const t = (last - begin) / 1000, zoom = 1.5 + Math.sin(t), x = 0.5 + 0.2 * Math.sin(2 * t);
  drawn.push(plot.draw({ ...view, moving: true, x, spanX: 1100 * zoom, spanY: 610 * zoom }).drawn);
  const now = await frame();
  intervals.push(now - last);
  last = now;
}
result.moving_ms = median(intervals);
result.moving_95_ms = intervals[Math.floor(0.95 * intervals.length)];
result.moving_points = median(drawn);

const angles = Array.from({ length: 200 }, (_, i) => 2 * Math.PI * i / 200), [[x, y]] = centers;
const circle = (r) => angles.flatMap((a) => [65535 * (x + r * Math.cos(a)), 65535 * (y + r * Math.sin(a))]);
let low = 0, high = 0.5;
for (let i = 0; i < 20; i++) {
  const middle = (low + high) / 2;
  if (points.inside(circle(middle)).length < 10000) low = middle;
  else high = middle;
}
result.lasso_ms = timed(5, () => {
  const selection = new Set(points.inside(circle(low)));
  result.lasso_points = selection.size;
  for (const row of selection) flags[row] |= SELECTED;
  plot.setState(labels, flags);
});
result.pick_ms = timed(100, () => points.nearest(65535 * x, 65535 * y, 16 * 65535 / 1100, 16 * 65535 / 610));
await fetch("/result", { method: "POST", body: JSON.stringify(result) });
</script>"""


class Handler(SimpleHTTPRequestHandler):
    """The page, the modules of the front end, and the result that the page posts."""

    results: Queue[dict[str, Any]] = Queue()

    def do_GET(self) -> None:
        """Answer with the page or a module."""
        if self.path.startswith("/?"):
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(PAGE.encode())
        else:
            super().do_GET()

    def do_POST(self) -> None:
        """Receive the result."""
        self.results.put(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Keep the output to the table."""


def measure(address: str, points: int, renderer: str, options: list[str]) -> dict[str, Any]:
    """Open the page in a new browser and wait for its result."""
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if chromium is None:
        raise SystemExit("Chromium is not installed (Debian: apt install chromium)")
    url = f"{address}/?points={points}&renderer={renderer}"
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        settings = ["--headless", "--no-sandbox", "--no-first-run", f"--user-data-dir={profile}", *options]
        browser = subprocess.Popen(
            [chromium, *settings, url],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            return Handler.results.get(timeout=300)
        finally:
            browser.terminate()
            browser.wait()


def main() -> None:
    """Measure each number of points and print the results as lines of JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--points", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--renderers", nargs="+", default=["webgl2", "2d"], choices=["webgl2", "2d"])
    parser.add_argument("--chromium", nargs="*", default=["--use-angle=swiftshader", "--enable-unsafe-swiftshader"])
    args = parser.parse_args()
    with as_file(files("cgmcr2.page") / "assets") as assets:
        server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, directory=str(assets)))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        for points in args.points:
            for renderer in args.renderers:
                result = measure(f"http://127.0.0.1:{server.server_port}", points, renderer, args.chromium)
                result["load"] = os.getloadavg()[0]
                rounded = {name: round(v, 1) if isinstance(v, float) else v for name, v in result.items()}
                print(json.dumps(rounded), flush=True)
        server.shutdown()


if __name__ == "__main__":
    main()
