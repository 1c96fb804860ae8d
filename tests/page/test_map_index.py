"""gl.js and points.js in the browser: picking and lasso against brute force, and both renderers."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from cgmcr2.page.bundle import bundle

pytestmark = pytest.mark.browser

RNG = np.random.default_rng(0)
POINTS = np.concatenate(
    [RNG.integers(0, 65_536, (600, 2)), np.clip(RNG.normal(20_000, 1500, (1400, 2)), 0, 65_535).astype(int)]
)
STAR = [
    (32_768 + radius * np.cos(angle), 32_768 + radius * np.sin(angle))
    for radius, angle in zip([40_000, 9_000] * 7, np.linspace(0, 2 * np.pi, 14, endpoint=False), strict=True)
]
BOW_TIE = [(10_000, 10_000), (60_000, 50_000), (60_000, 10_000), (10_000, 50_000)]
AROUND = [(-5000, -5000), (70_000, -5000), (70_000, 70_000), (-5000, 70_000)]


def inside(polygon: list[tuple[float, float]], points: np.ndarray[Any, Any]) -> set[int]:
    """Rows in a polygon, by the even-odd rule."""
    x, y = points.T
    odd = np.zeros(len(points), dtype=bool)
    for (x1, y1), (x2, y2) in zip(polygon, polygon[1:] + polygon[:1], strict=True):
        if y1 == y2:
            continue
        odd ^= ((y1 > y) != (y2 > y)) & (x < x1 + (y - y1) * (x2 - x1) / (y2 - y1))
    return set(np.flatnonzero(odd).tolist())


@pytest.fixture(scope="module")
def page(browser: Any) -> Any:
    """A blank page with the exports of gl.js and points.js as ``gl``, and an index of POINTS as ``points``."""
    browser.send("Page.navigate", url="about:blank")
    for module in ("gl.js", "points.js"):
        script = bundle(module) + f"window.gl = {{ ...window.gl, ...modules['{module}'] }};"
        browser.run(f"void (() => {{ {script} }})()")
    browser.run(f"void (window.points = gl.pointIndex(new Uint16Array({json.dumps(POINTS.ravel().tolist())})))")
    return browser


@pytest.mark.parametrize("polygon", [STAR, BOW_TIE, AROUND], ids=["star", "bow tie", "around everything"])
def test_lasso_encloses_the_same_points_as_brute_force(page: Any, polygon: list[tuple[float, float]]) -> None:
    rows = page.run(f"points.inside({json.dumps([float(value) for point in polygon for value in point])})")
    assert len(rows) == len(set(rows))
    assert set(rows) == inside(polygon, POINTS)


def test_nearest_point_is_that_of_brute_force(page: Any) -> None:
    for x, y in RNG.integers(0, 65_536, (50, 2)).tolist():
        distance = np.hypot((POINTS[:, 0] - x) / 900, (POINTS[:, 1] - y) / 1600)
        row = page.run(f"points.nearest({x}, {y}, 900, 1600)")
        assert row == (distance.argmin() if distance.min() < 1 else -1)
    assert page.run("points.nearest(20000, 20000, 900, 1600, (row) => row < 600)") < 600


def test_samples_cover_the_box_and_stay_the_same(page: Any) -> None:
    rows = set(page.run("[...points.sample([0, 0, 65535, 65535], 0, points.n)].map((rank) => points.rows[rank])"))
    assert rows == set(range(len(POINTS)))
    sample = page.run("[...points.sample([0, 0, 65535, 65535], 0, 500)].map((rank) => points.rows[rank])")
    assert len(sample) == 500
    assert sum(row < 600 for row in sample) == pytest.approx(150, abs=15)  # a fair share of the first 600 of 2000 rows
    boxed = page.run("[...points.sample([0, 0, 65535, 40000], 0, 500)].map((rank) => points.rows[rank])")
    assert np.array([POINTS[row][1] < 45_000 for row in boxed]).all()


DRAW = """(() => {
  const canvas = document.createElement("canvas"), original = canvas.getContext.bind(canvas);
  [canvas.width, canvas.height] = [100, 100];
  canvas.getContext = (kind) => (kind === RENDERER ? original(kind, { preserveDrawingBuffer: true }) : null);
  if (!canvas.getContext(RENDERER)) return null;
  const points = gl.pointIndex(Uint16Array.of(16384, 16384, 49151, 16384, 16384, 49151, 49151, 49151));
  const plot = gl.scatter(canvas, points, ["#ff0000", "#0000ff"]);
  plot.setState(Uint16Array.of(0, 1, 0, 1), Uint8Array.of(gl.FRONT, gl.FRONT, 0, gl.FRONT | gl.SELECTED));
  const { drawn } = plot.draw({
    x: 0.5, y: 0.5, spanX: 100, spanY: 100, width: 100, height: 100, ratio: 1, radius: 8, opacity: 1,
    ink: [0, 0, 0], dimmed: [0, 1, 0], moving: false,
  });
  const copy = Object.assign(document.createElement("canvas"), { width: 100, height: 100 }).getContext("2d");
  copy.drawImage(canvas, 0, 0);
  const at = (x, y) => [...copy.getImageData(x, y, 1, 1).data];
  return [drawn, at(25, 25), at(75, 25), at(25, 75), at(75, 75), at(75, 84), at(50, 50)];
})()"""


@pytest.mark.parametrize("renderer", ["webgl2", "2d"])
def test_renderers_draw_clusters_dimmed_and_selected_points(page: Any, renderer: str) -> None:
    result = page.run(DRAW.replace("RENDERER", json.dumps(renderer)))
    if result is None:
        pytest.skip("this Chromium has no WebGL")
    drawn, first, second, dimmed, selected, outline, background = result
    assert drawn == 4
    assert first == [255, 0, 0, 255]
    assert second == selected == [0, 0, 255, 255]
    assert dimmed[1] > 200
    assert dimmed[0] == dimmed[2] == 0
    assert outline == [0, 0, 0, 255]
    assert background == [0, 0, 0, 0]
