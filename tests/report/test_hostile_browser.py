"""Hostile names in a browser: nothing from a file name, cluster name, setting or message becomes markup or runs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from cgmcr2.clustering import Clustering
from cgmcr2.images import Catalog
from cgmcr2.report.limits import PageLimits
from cgmcr2.report.report import write_report

pytestmark = pytest.mark.browser

HOSTILE = [
    "<img src=x onerror=window.hacked=1>",
    "x</script><script>window.hacked=1</script>",
    "javascript:window.hacked=1",
    "'\" onmouseover=window.hacked=1 autofocus onfocus=window.hacked=1 x='",
    "\"><svg onload=window.hacked=1><a href='javascript:window.hacked=1'>click</a>",
    "a\u2028window.hacked=1\u2029//",
    "a \u202egnp.exe\u2066",
    "<!--<script>",
    "{{ hacked }}{% raw %}${window.hacked=1}`",
    "&lt;b&gt; &amp;#x3c;script>",
    "\\u003cimg src=x onerror=window.hacked=1\\u003e",
    "<style>*{display:none}</style><base href=x><iframe srcdoc='<script>parent.hacked=1</script>'>",
]
# Elements and attributes that the page itself never has.
FOREIGN = (
    "[onerror], [onload], [onfocus], [onmouseover], "
    "[style]:not(#canvas, #tip, .grid, .cell, .rubber), [srcdoc], [autofocus], iframe, object,"
    "embed, base, form, script ~ script, body style, section a:not([href], #viewer-link), img:not([src^='data:image/'])"
)
# Text with a right-to-left override that is not isolated from the text after it.
NOT_ISOLATED = (
    "(() => { const found = [], walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);"
    "while (walker.nextNode()) if (walker.currentNode.data.includes('\\u202e')"
    " && !walker.currentNode.parentElement.closest('bdi, option, pre, svg')) found.push(walker.currentNode.data);"
    "return found; })()"
)


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page with hostile text wherever text can come from outside."""
    folder = tmp_path_factory.mktemp("run")
    for number in range(3 * len(HOSTILE)):
        file = folder / "photos" / f"{HOSTILE[number % len(HOSTILE)]}{number}.png"
        file.parent.mkdir(parents=True, exist_ok=True)  # "</script>" is a folder and a file
        Image.new("RGB", (24, 24), (5 * number, 99, 200)).save(file)
    catalog = Catalog.from_source(folder / "photos")
    n, k = len(catalog), len(HOSTILE)
    labels = np.arange(n) % k
    rng = np.random.default_rng(0)
    probabilities = rng.dirichlet(np.ones(k), n)
    probabilities[np.arange(n), labels] += 1
    c = Clustering(
        catalog.ids,
        labels,
        embedding=np.eye(k)[labels] + 0.1 * rng.standard_normal((n, k)),
        probabilities=probabilities / 2,
        names=HOSTILE,
    )
    text = " ".join(HOSTILE)
    choice = {"candidates": [2, 3, 9], "scores": [0.0, 1.0, 0.5], "chosen": 3, "runners_up": [9], "verdict": HOSTILE[0]}
    return write_report(
        c,
        folder / "report.html",
        images=catalog,
        features=c.embedding,
        metrics=[{"step": s, "stage": HOSTILE[s // 2], "loss": -s, HOSTILE[0]: s, HOSTILE[4]: s} for s in range(8)],
        settings={
            "protocol": text,
            "choice": choice,
            "settings": {**dict.fromkeys(HOSTILE, text), HOSTILE[0]: {text: 1}},
        },
        errors=[(name, text) for name in HOSTILE],
        source=text,
        note=text,
        limits=PageLimits(thumbnails=20),
    )


def visit(browser: Any) -> None:
    """Open everything that shows a name: cards, clusters, the list, the viewer, the map, the selection."""
    for cluster in browser.run("app.data.clusters.map(entry => entry.number)"):
        browser.run(f"location.hash = 'cluster-{cluster}'")
        browser.until(f"document.querySelector('#detail-title bdi')?.textContent === app.data.names[{cluster}]")
        check(browser)
    browser.run("app.go('images')")
    check(browser)
    browser.run("document.querySelector('[data-value=list]').click()")
    check(browser)
    browser.press("a", ctrl=True)
    check(browser)
    browser.press("Escape")
    browser.run("app.view(0, [...app.data.labels.keys()])")
    for _ in range(browser.run("app.data.n")):
        browser.press("ArrowRight")
        check(browser)
    browser.press("Escape")
    browser.run("app.go('map')")
    browser.until("document.getElementById('map-message').hidden")
    browser.run("document.getElementById('canvas').focus()")
    for key in ("ArrowRight", "ArrowRight", "ArrowUp", "ArrowLeft"):
        browser.press(key)
        check(browser)
    browser.run("app.go('about'); document.querySelectorAll('details').forEach(details => { details.open = true; })")
    check(browser)


def check(browser: Any) -> None:
    assert [problem for problem in browser.problems if "WebGL" not in problem] == []
    assert browser.run(f"[...document.querySelectorAll({FOREIGN!r})].map(e => e.outerHTML)") == []
    assert browser.run(NOT_ISOLATED) == []
    assert browser.run("[...document.links].filter(a => a.protocol !== 'file:').map(a => a.href)") == []


@pytest.mark.parametrize("policy", [True, False], ids=["page", "without its policy"])
def test_hostile_text_is_shown_as_text(browser: Any, hostile: Path, policy: bool) -> None:
    """Without the Content Security Policy, injected markup would run; with it, the browser would report it."""
    page = hostile
    if not policy:
        text, count = re.subn(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", hostile.read_text("utf-8"))
        assert count == 1
        page = hostile.with_name("without-policy.html")
        page.write_text(text, "utf-8")
    browser.open(page)
    check(browser)
    visit(browser)
    browser.settle()
    check(browser)
    assert browser.run("window.hacked === undefined")
    for name in HOSTILE:  # every name is shown, character by character
        assert browser.run(f"app.data.names.includes({js_string(name)})")
        assert browser.run(f"document.querySelector('#cluster-table').textContent.includes({js_string(name)})")
        assert browser.run(f"document.querySelector('#unreadable').textContent.includes({js_string(name)})")
    assert browser.run("document.scripts.length") == 1


def js_string(text: str) -> str:
    return '"' + "".join(f"\\u{ord(char):04x}" for char in text) + '"'
