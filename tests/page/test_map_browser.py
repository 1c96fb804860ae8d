"""The map of the explorer and of report.html in a real browser."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cgmcr2.clustering import Clustering
from cgmcr2.report.report import write_report

pytestmark = pytest.mark.browser

# RGBA of the map; a frame must have been drawn just before.
PIXELS = """new Promise((done) => requestAnimationFrame(() => setTimeout(() => requestAnimationFrame(() => {
  const copy = Object.assign(document.createElement("canvas"), { width: 300, height: 200 }).getContext("2d");
  for (const id of ["points", "canvas"]) copy.drawImage(document.getElementById(id), 0, 0, 300, 200);
  done([...copy.getImageData(0, 0, 300, 200).data].join());
}), 300)))"""


def open_map(browser: Any, page: Path | str, **window: Any) -> None:
    browser.open(page, **window)
    browser.run("app.go('map')")
    browser.until("document.getElementById('map-message').hidden")
    browser.run("app.select([]); window.at = null; app.source.map().then((map) => { window.at = map; })")
    browser.until("window.at")
    browser.settle()


def drag(browser: Any, path: list[tuple[float, float]], *, shift: bool = False, alt: bool = False) -> None:
    """Drag the mouse along positions relative to the size of the map."""
    left, top, width, height = browser.box("#canvas")
    points = [{"x": left + u * width, "y": top + v * height, "modifiers": alt + 8 * shift} for u, v in path]
    common = {"button": "left", "clickCount": 1}
    browser.send("Input.dispatchMouseEvent", type="mousePressed", buttons=1, **common, **points[0])
    for point in points[1:]:
        browser.send("Input.dispatchMouseEvent", type="mouseMoved", buttons=1, **common, **point)
    browser.send("Input.dispatchMouseEvent", type="mouseReleased", buttons=0, **common, **points[-1])
    browser.settle()


def box(left: float, right: float) -> list[tuple[float, float]]:
    """Outline of a part of the map, from top to bottom, with steps in between as of a hand."""
    corners = np.array([(left, 0.01), (right, 0.01), (right, 0.99), (left, 0.99)])
    return [tuple(a + t * (b - a)) for a, b in itertools.pairwise(corners) for t in np.linspace(0, 1, 5).tolist()]


LEFT_HALF = "[...Array(app.data.n).keys()].filter((row) => at[2 * row] < 32767.5)"
SELECTED = "[...app.selection].sort((a, b) => a - b)"


def test_lasso_replaces_adds_and_subtracts(browser: Any, explorer: str) -> None:
    open_map(browser, explorer)
    left = browser.run(LEFT_HALF)
    assert 0 < len(left) < 60
    browser.press("l")
    assert browser.run("document.getElementById('lasso').getAttribute('aria-pressed')") == "true"
    drag(browser, box(0.01, 0.5))
    assert browser.run(SELECTED) == left
    drag(browser, box(0.5, 0.99), shift=True)
    assert browser.run("app.selection.size") == 60
    drag(browser, box(0.5, 0.99), alt=True)
    assert browser.run(SELECTED) == left
    browser.press("Escape")  # ends the lasso, and keeps the selection
    assert browser.run("document.getElementById('lasso').getAttribute('aria-pressed')") == "false"
    assert browser.run("app.selection.size") == len(left)
    assert browser.problems == []


def test_lasso_only_selects_the_highlighted_cluster(browser: Any, explorer: str) -> None:
    open_map(browser, explorer)
    browser.click("#legend button:nth-child(2)")
    drag(browser, box(0.01, 0.99), shift=True)
    cluster = browser.run("app.data.clusters[1].number")
    assert browser.run("[...new Set(Array.from(app.selection, (row) => app.data.labels[row]))]") == [cluster]
    assert browser.run("app.selection.size") == browser.run("app.data.clusters[1].size")
    browser.click("#legend button:nth-child(2)")


def test_selected_images_become_a_cluster_and_return(browser: Any, explorer: str) -> None:
    open_map(browser, explorer)
    labels = browser.run("[...app.data.labels]")
    drag(browser, box(0.01, 0.5), shift=True)
    rows = browser.run(SELECTED)
    browser.press("n")
    browser.type("on the left")
    browser.press("Enter")
    browser.until("app.data.names.includes('on the left')")
    new = browser.run("app.data.names.indexOf('on the left')")
    assert [row for row, label in enumerate(browser.run("[...app.data.labels]")) if label == new] == rows
    assert "on the left" in browser.run("document.getElementById('legend').textContent")
    browser.press("z", ctrl=True)
    browser.until("!app.cluster(app.data.names.indexOf('on the left'))")
    assert browser.run("[...app.data.labels]") == labels
    assert browser.problems == []


def test_map_by_keyboard(browser: Any, explorer: str) -> None:
    open_map(browser, explorer)
    browser.run("document.getElementById('canvas').focus()")
    browser.press("ArrowRight")
    browser.until("!document.getElementById('tip').hidden")
    browser.until("document.querySelector('#view-map [role=status]').textContent.includes('.png')")
    browser.press(" ")
    assert browser.run("app.selection.size") == 1
    browser.press("Enter")
    browser.until("document.getElementById('viewer').open")
    browser.press("Escape")


def test_zoom_pan_and_reset(browser: Any, explorer: str) -> None:
    open_map(browser, explorer)
    browser.point(5, 5)
    browser.click("[data-value=points]")
    before = browser.run(PIXELS)
    assert len(set(before.split(","))) > 20
    left, top, width, height = browser.box("#canvas")
    wheel = {"x": left + width / 2, "y": top + height / 2, "deltaX": 0, "deltaY": -50}
    browser.send("Input.dispatchMouseEvent", type="mouseWheel", **wheel)
    zoomed = browser.run(PIXELS)
    assert zoomed != before
    drag(browser, [(0.5, 0.5), (0.52, 0.5), (0.6, 0.5)])
    assert browser.run(PIXELS) != zoomed
    browser.click("#zoom-reset")
    assert browser.run(PIXELS) == before
    browser.click("[data-value=pictures]")


def test_lasso_and_drawing_without_webgl(browser: Any, explorer: str) -> None:
    script = """const original = HTMLCanvasElement.prototype.getContext;
      HTMLCanvasElement.prototype.getContext = function (kind, options) {
        return kind === "2d" ? original.call(this, kind, options) : null;
      }"""
    handle = browser.send("Page.addScriptToEvaluateOnNewDocument", source=script)
    try:
        open_map(browser, explorer, width=390, height=844)
        drag(browser, box(0.01, 0.5), shift=True)
        assert browser.run(SELECTED) == browser.run(LEFT_HALF)
        assert len(set(browser.run(PIXELS).split(","))) > 20
        assert browser.problems == []
    finally:
        browser.send("Page.removeScriptToEvaluateOnNewDocument", **handle)


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """report.html of 90 rows without images."""
    rng = np.random.default_rng(0)
    labels = np.arange(90) % 3
    Z = np.eye(8)[labels] + 0.2 * rng.standard_normal((90, 8))
    clustering = Clustering([f"row {i}" for i in range(90)], labels, embedding=Z)
    return write_report(clustering, tmp_path_factory.mktemp("report") / "report.html", map_method="pca")


def test_map_of_the_report_is_read_only(browser: Any, report: Path) -> None:
    open_map(browser, report)
    assert browser.run("document.getElementById('lasso')") is None
    browser.run("document.getElementById('canvas').focus()")
    browser.press("l")
    drag(browser, box(0.01, 0.99), shift=True)
    assert browser.run("app.selection.size") == 0
    browser.press("ArrowRight")
    browser.until("document.querySelector('#tip .file')?.textContent.startsWith('row')")
    browser.press("Enter")
    browser.until("document.getElementById('viewer').open")
    assert browser.problems == []


def test_map_in_tiny_windows_and_hidden_at_first(browser: Any, report: Path) -> None:
    """Windows may be very narrow while they are opened; the map is drawn correctly once they are not."""
    for width, height in ((80, 60), (40, 1), (1, 900)):
        open_map(browser, report, width=width, height=height)
        browser.run("document.getElementById('canvas-box').style.display = 'none'")
        browser.click("#legend button")
        browser.run("document.getElementById('canvas-box').style.display = ''")
        browser.settle()
        assert browser.problems == []
    browser.send("Emulation.setDeviceMetricsOverride", width=1280, height=900, deviceScaleFactor=1, mobile=False)
    browser.settle()
    assert len(set(browser.run(PIXELS).split(","))) > 20
    assert browser.problems == []
