"""Speed of the explorer with 100,000 synthetic images in 100 clusters, over HTTP and in headless Chromium.

    python benchmarks/explorer_speed.py
    python benchmarks/explorer_speed.py --images 1000000 --no-files     # without image files: no thumbnails

The run is written first, without training (``synthetic_run.py``), and kept in ``--folder``. The server is the command
``cgmcr2 explore``. Times are medians of ``--repeats`` requests, each until the whole answer has arrived:

- first cards: from the start of the navigation, in a new profile, until all thumbnails in the window are loaded;
- edits: until the new state and the values of all rows have arrived; the rows of a lasso are neighbours on the map;
- scrolling: share of the frames with a part of the grid without tiles, and of the visible tiles without their picture.

Frame times of the map are measured by ``map_speed.py``.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from synthetic_run import write_run

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from tests.browser import Browser, find_browser

FIRST_CARDS = """window.firstCards = new Promise((done) => {
  const visible = (image) => {
    const box = image.getBoundingClientRect();
    return box.height && box.top < innerHeight && box.bottom > 0;
  };
  const check = () => {
    const images = [...document.querySelectorAll(".card img")].filter(visible);
    if (images.length > 11 && images.every((image) => image.complete && image.naturalWidth)) done(performance.now());
    else requestAnimationFrame(check);
  };
  document.addEventListener("DOMContentLoaded", check);
});"""
SCROLL = """(async (windows, seconds) => {
  const grid = [...document.querySelectorAll(".grid")].find((element) => element.clientWidth);
  const begin = performance.now();
  let frames = 0, blank = 0, tiles = 0, loading = 0;
  for (let time = 0; time < seconds; time = (performance.now() - begin) / 1000) {
    scrollTo(0, time * windows * innerHeight);
    await new Promise(requestAnimationFrame);
    await new Promise((done) => setTimeout(done)); // after the frame was drawn
    const all = grid.getBoundingClientRect(), top = Math.max(0, all.top), bottom = Math.min(innerHeight, all.bottom);
    const cells = [...grid.querySelectorAll(".cell")]
      .map((cell) => ({ image: cell.querySelector("img"), box: cell.getBoundingClientRect() }))
      .filter(({ box }) => box.bottom > 0 && box.top < innerHeight);
    const first = Math.min(...cells.map(({ box }) => box.top)), last = Math.max(...cells.map(({ box }) => box.bottom));
    frames += 1;
    blank += !(first < top + 12 && last > bottom - 12); // 12: the gap between two rows
    tiles += cells.length;
    loading += cells.filter(({ image }) => image && !image.naturalWidth).length;
  }
  return { fps: frames / seconds, blank: blank / frames, loading: loading / tiles };
})"""


class Server:
    """``cgmcr2 explore`` in a process of its own."""

    def __init__(self, run: Path) -> None:
        start = time.perf_counter()
        command = [sys.executable, "-m", "cgmcr2", "explore", str(run), "--no-browser"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        match = re.search("http://.*", self.process.stdout.readline())
        assert match is not None
        self.url, self.seconds = match[0], time.perf_counter() - start
        address = urlsplit(self.url)
        self.path, self.origin = address.path, f"http://{address.netloc}"
        self.connection = http.client.HTTPConnection(address.netloc)

    def request(self, path: str, **body: Any) -> bytes:
        """The answer to GET, or to POST if there is a body."""
        headers = {"Origin": self.origin, "Content-Type": "application/json"}
        self.connection.request(
            "POST" if body else "GET", self.path + path, json.dumps(body) if body else None, headers
        )
        answer = self.connection.getresponse()
        data = answer.read()
        assert answer.status in (200, 202, 204), data[:300]
        return data

    def cpu(self) -> float:
        """CPU time of the process so far, in seconds."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def stop(self) -> None:
        """End the server as Ctrl-C does."""
        self.process.send_signal(signal.SIGINT)
        self.process.wait()


class Table:
    """Prints one line per measurement: median and maximum of the wall time, and CPU time of the server."""

    def __init__(self, server: Server, repeats: int) -> None:
        self.server, self.repeats = server, repeats

    def measure(self, name: str, *actions: Any) -> None:
        """Time each of ``actions`` in turn; print the line of the first one."""
        walls, cpus = [], []
        for _ in range(self.repeats):
            start, cpu = time.perf_counter(), self.server.cpu()
            actions[0]()
            walls.append(time.perf_counter() - start)
            cpus.append(self.server.cpu() - cpu)
            for action in actions[1:]:
                action()
        median, cpu = statistics.median(walls), statistics.median(cpus)
        print(
            f"{name:44} {1e3 * median:7.0f} ms  (slowest {1e3 * max(walls):5.0f}, server CPU {1e3 * cpu:4.0f})",
            flush=True,
        )


def measure_requests(server: Server, table: Table, n: int, k: int) -> None:
    """Time requests over HTTP."""

    def edit(verb: str, **arguments: Any) -> None:
        state = json.loads(server.request("state"))["state"]
        server.request("edit", verb=verb, arguments=arguments, state=state)
        server.request("rows")

    while not (positions := server.request("map")) or positions.startswith(b"{"):
        time.sleep(1)
    points = np.frombuffer(positions, "<u2").reshape(n, 2).astype(float)
    lasso = np.argsort(np.square(points - points[0]).sum(axis=1))[: min(n // 10, 10_000)].tolist()
    scattered = np.random.default_rng(0).choice(n, len(lasso), replace=False).tolist()
    table.measure("GET state and rows", lambda: (server.request("state"), server.request("rows")))
    table.measure("rename, with state and rows", lambda: edit("rename", cluster=0, name=f"name {time.time()}"))
    table.measure("move 1 image", lambda: edit("move", rows=[0], cluster=1), lambda: edit("undo"))
    table.measure(
        f"move {len(lasso):,} images of a lasso", lambda: edit("move", rows=lasso, cluster=1), lambda: edit("undo")
    )
    table.measure(
        f"move {len(scattered):,} images of all clusters",
        lambda: edit("move", rows=scattered, cluster=1),
        lambda: edit("undo"),
    )
    table.measure("merge 2 clusters", lambda: edit("merge", clusters=[2, 3]), lambda: edit("undo"))
    table.measure("undo", lambda: edit("undo"), lambda: edit("redo"))
    table.measure("ids of 1,000 rows", lambda: server.request("ids", rows=list(range(1000))))
    table.measure("similar images", lambda: server.request("similar", row=5, count=200))
    table.measure("preview of a split into 2", lambda: server.request("split-preview", cluster=5, parts=2))
    table.measure(f"levels: {k} to {k // 2} clusters", lambda: server.request("levels", clusters=k // 2))


def measure_first_cards(server: Server, program: str, profiles: int = 5) -> None:
    """Time the first cards in new profiles of the browser; only the first one finds no thumbnail in the cache."""
    times = []
    for _ in range(profiles):
        with opened(server, program) as browser:
            times.append(browser.run("firstCards"))
    print(f"{'first cards in the browser':44} {', '.join(f'{value:.0f}' for value in times)} ms", flush=True)


def measure_scrolling(server: Server, program: str) -> None:
    """Scroll through all images."""
    with opened(server, program) as browser:
        for windows in (1, 5, 20):
            browser.run("location.hash = 'images'; new Promise((done) => setTimeout(done, 1000))")
            result = browser.run(f"{SCROLL}({windows}, 5)")
            blank, loading = 100 * result["blank"], 100 * result["loading"]
            print(f"scrolling {windows:2} windows per second: {result['fps']:.0f} frames per second,")
            print(f"  {blank:.1f} % with blank rows, {loading:.1f} % of the pictures not yet loaded", flush=True)
        for problem in browser.problems:
            print("problem:", problem)


@contextlib.contextmanager
def opened(server: Server, program: str) -> Iterator[Browser]:
    """The page in a browser with a new profile."""
    browser = Browser(program, Path(tempfile.mkdtemp()))
    try:
        browser.send("Page.addScriptToEvaluateOnNewDocument", source=FIRST_CARDS)
        browser.open(server.url)
        yield browser
    finally:
        browser.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=100_000)
    parser.add_argument("--clusters", type=int, default=100)
    parser.add_argument("--no-files", action="store_true")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "explorer-speed")
    arguments = parser.parse_args()
    files = not arguments.no_files
    run = write_run(arguments.folder, arguments.images, arguments.clusters, images=files)
    (run / "edits.jsonl").unlink(missing_ok=True)
    server = Server(run)
    try:
        print(f"{'start of the server':44} {1e3 * server.seconds:7.0f} ms  (CPU {1e3 * server.cpu():.0f})")
        if program := find_browser():
            if files:
                measure_first_cards(server, program)
            measure_scrolling(server, program)
        measure_requests(server, Table(server, arguments.repeats), arguments.images, arguments.clusters)
    finally:
        server.stop()


if __name__ == "__main__":
    main()
