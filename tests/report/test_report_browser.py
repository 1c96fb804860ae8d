"""The report page in a browser: mouse, keyboard, small screens, dark theme."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any
from urllib.parse import unquote_to_bytes

import numpy as np
import pytest
from PIL import Image, ImageDraw

from cgmcr2.clustering import Clustering
from cgmcr2.images import Catalog
from cgmcr2.report.limits import PageLimits
from cgmcr2.report.report import write_report

pytestmark = pytest.mark.browser

HOSTILE = [
    "<script>window.hacked=1<script>.png",
    "<img src=x onerror=window.hacked=1>.png",
    "'\"><svg onload=window.hacked=1>.png",
    "caf\udce9 100%#?.png",
    "two\nlines & more.png",
    "a very long name " + "without_any_break_" * 9 + ".png",
]
N, K = 130, 4

# RGBA values of the map, read from a copy: Chromium warns about repeated reads of the canvas itself.
PIXELS = (
    "(map => { const copy = Object.assign(document.createElement('canvas'), {width: map.width, height: map.height});"
    "const context = copy.getContext('2d', {willReadFrequently: true}); context.drawImage(map, 0, 0);"
    "return context.getImageData(0, 0, map.width, map.height).data; })($('canvas'))"
)


def clustering(ids: list[str], k: int) -> Clustering:
    rng = np.random.default_rng(0)
    labels = np.arange(len(ids)) % k
    Z = np.eye(max(8, k))[labels] + 0.2 * rng.standard_normal((len(ids), max(8, k)))
    logits = 5 * np.eye(k)[labels] + 1.5 * rng.standard_normal((len(ids), k))
    probabilities = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    return Clustering(ids, probabilities.argmax(1), embedding=Z, probabilities=probabilities)


@pytest.fixture(scope="module")
def with_images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    photos = folder / "my photos"
    (photos / "sub").mkdir(parents=True)
    names = HOSTILE + [f"{'sub/' if i % 2 else ''}IMG_{i:04}.png" for i in range(N - len(HOSTILE))]
    for number, name in enumerate(names):
        image = Image.new("RGB", (48, 36), (number * 2 % 256, number * 37 % 256, 120))
        ImageDraw.Draw(image).text((4, 8), str(number))
        image.save(photos / name)
    catalog = Catalog.from_source(photos)
    c = clustering(catalog.ids, K).rename(0, "</script><script>window.hacked=1</script>")
    metrics = [{"step": s, "stage": "warm-up" if s < 9 else "fine-tuning", "loss": -s / 7, "R": s} for s in range(30)]
    return write_report(
        c,
        folder / "report.html",
        images=catalog,
        features=np.random.default_rng(1).standard_normal((N, 6)),
        metrics=metrics,
        settings={"source": str(photos), "protocol": "p", "settings": {HOSTILE[0]: HOSTILE[1], "long": "x" * 200}},
        errors=[(HOSTILE[1], "<b>truncated</b>")],
        source=str(photos),
    )


@pytest.fixture(scope="module")
def without_images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    ids = [f"row/{i}" for i in range(280)] + ["</script><script>window.hacked=1</script>"]
    return write_report(clustering(ids, 25), tmp_path_factory.mktemp("run") / "report.html", map_method="pca")


@pytest.fixture
def page(browser: Any, with_images: Path) -> Any:
    browser.open(with_images)
    yield browser
    assert browser.problems == []
    assert browser.run("window.hacked === undefined")


def focused(page: Any) -> str:
    return str(page.run("document.activeElement.getAttribute('aria-label') || document.activeElement.id"))


def test_clusters_show_their_thumbnails(page: Any) -> None:
    assert page.run("document.querySelectorAll('#cluster-list > li').length") == K
    page.until(
        "[...document.querySelectorAll('#cluster-list img')].slice(0, 7).every(i => i.complete && i.naturalWidth > 0)"
    )
    assert page.run("document.querySelectorAll('#cluster-list > li:first-child .strip.typical .tile').length") == 7
    assert page.run("document.querySelector('#cluster-list').textContent.includes('</script><script>window.hacked')")
    assert page.run("document.title").startswith("130 images in 4 clusters")
    assert page.run("$('duplicates') === null && document.querySelector('.badge') === null")


def test_cluster_details(page: Any) -> None:
    page.click("#cluster-list > li:first-child .title button")
    page.until("!document.querySelector('#detail').hidden")
    size = page.run("data.sizes[detail.cluster]")
    tiles = "document.querySelectorAll('#gallery .tile').length"
    assert page.run(tiles) == 24
    assert page.run("$('gallery-count').textContent") == f"24 of {size}"
    page.click("#gallery-more")
    assert page.run(tiles) == size
    assert page.run("$('gallery-more').hidden && $('others').hidden")
    assert page.run("document.activeElement === document.querySelectorAll('#gallery .tile')[24]")
    page.click("#by-uncertain")
    assert page.run(tiles) == 24
    least = page.run("Math.min(...data.uncertain[detail.cluster].map(p => margin[p]))")
    assert page.run("margin[data.ids.indexOf(document.querySelector('#gallery .tile').title)]") == least
    assert page.run("document.querySelector('#filter').value === String(detail.cluster)")
    page.click("#next-cluster")
    page.until("detail.cluster === order.clusters[1]")
    page.run("history.back()")
    page.until("detail.cluster === order.clusters[0]")
    page.press("Escape")
    page.until("document.querySelector('#detail').hidden")
    assert page.run("document.querySelector('#filter').value") == ""


@pytest.fixture(scope="module")
def many_images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two clusters of 150 images, of which 60 have thumbnails; 280 of the 300 rows are on the page."""
    folder = tmp_path_factory.mktemp("run")
    (folder / "photos").mkdir()
    for number in range(300):
        Image.new("RGB", (16, 16), (number % 256, 80, 160)).save(folder / "photos" / f"IMG {number:03}.png")
    catalog = Catalog.from_source(folder / "photos")
    c = Clustering(catalog.ids, np.arange(300) % 2, confidence=np.linspace(0.2, 1, 300), margin=np.linspace(0, 1, 300))
    write_report(c, folder / "sample.html", images=catalog, limits=PageLimits(rows=280, thumbnails=60))
    return write_report(c, folder / "report.html", images=catalog, limits=PageLimits(thumbnails=60))


def test_every_member_of_a_large_cluster_can_be_seen(browser: Any, many_images: Path) -> None:
    browser.open(many_images)
    browser.run("location.hash = 'cluster-1'")
    browser.until("detail.cluster === 1")
    pictures = browser.run("data.typical[1].filter(index => thumbnails[index]).length")
    about = browser.run("$('detail-about').textContent")
    assert f"Pictures of {pictures} of 150; the others are listed below by name. Open the folder" in about
    assert (
        browser.run("document.querySelector('#detail-about a').href") == (many_images.parent / "photos").as_uri() + "/"
    )
    for button in ("gallery-more", "names-more"):
        while not browser.run(f"$('{button}').hidden"):
            browser.click(f"#{button}")
    titles = browser.run("[...document.querySelectorAll('#gallery .tile, #names .file')].map(e => e.title)")
    assert sorted(titles) == [f"IMG {number:03}.png" for number in range(1, 300, 2)]
    links = browser.run("[...document.querySelectorAll('#names a')].map(a => a.href)")
    assert len(links) == 150 - pictures
    assert all(Path(unquote_to_bytes(link.removeprefix("file://")).decode()).is_file() for link in links)
    browser.click("#gallery .tile")
    assert browser.run("$('viewer-position').textContent") == "1 / 150"
    assert browser.problems == []


def test_large_cluster_of_which_the_page_holds_a_sample(browser: Any, many_images: Path) -> None:
    browser.open(many_images.with_name("sample.html"), width=390)
    browser.run("location.hash = 'cluster-0'")
    browser.until("detail.cluster === 0")
    tiles, names = browser.run("[galleryOf('typical', 0).tiles.length, galleryOf('typical', 0).names.length]")
    assert tiles + names < 150
    about = browser.run("$('detail-about').textContent")
    assert f"Pictures of {tiles} of 150; {names} others are listed below by name. The file labels.csv lists" in about
    assert browser.run("document.documentElement.scrollWidth") <= 390
    assert browser.problems == []


@pytest.fixture(scope="module")
def with_copies(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Forty images in two clusters; each of the first 15 has a near-duplicate, and the second one has ten more."""
    folder = tmp_path_factory.mktemp("run")
    (folder / "photos").mkdir()
    for number in range(40):
        Image.new("RGB", (16, 16), (number * 6, 80, 160)).save(folder / "photos" / f"IMG {number:03}.png")
    catalog = Catalog.from_source(folder / "photos")
    groups = np.arange(40)
    groups[15:30], groups[30:40] = np.arange(15), 1
    labels = np.where(np.arange(40) < 30, np.arange(40) % 15, 1) % 2
    labels[15] = 1  # in another cluster than the first image of its group
    c = Clustering(catalog.ids, labels, embedding=np.random.default_rng(0).standard_normal((40, 4)), groups=groups)
    return write_report(c, folder / "report.html", images=catalog, map_method="pca")


@pytest.mark.parametrize("width", [1280, 390])
def test_groups_of_near_duplicates(browser: Any, with_copies: Path, width: int) -> None:
    browser.open(with_copies, width=width)
    assert "15groups of near-duplicates" in browser.run("document.querySelector('.figures').textContent")
    assert "40 images in 15 groups, largest first" in browser.run("$('duplicates').textContent")
    titles = "[...document.querySelectorAll('#group-list > li')].map(li => li.querySelector('.title').textContent)"
    assert browser.run(titles)[:2] == ["12 imagesCluster 1", "2 imagesin 2 clusters"]
    assert browser.run("document.querySelectorAll('#group-list > li').length") == 10
    browser.click("#groups-pager button:last-child")
    assert browser.run("document.querySelectorAll('#group-list > li').length") == 5
    browser.click("#groups-pager button:first-child")
    browser.click("#group-list > li:first-child .tile")
    assert browser.run("$('viewer-position').textContent") == "1 / 12"
    assert "Near-duplicates11 others" in browser.run("$('viewer-details').textContent")
    browser.press("Escape")
    assert browser.run(f"document.documentElement.scrollWidth <= {width}")
    assert browser.problems == []


def test_badges_of_near_duplicates(browser: Any, with_copies: Path) -> None:
    browser.open(with_copies)
    tiles = "[...document.querySelectorAll('#cluster-list > li:first-child .strip.typical .tile')]"
    groups = browser.run(tiles + ".map(tile => groupOf.get(data.ids.indexOf(tile.title))[0])")
    assert len(groups) == len(set(groups)) == 7  # a group is shown once in the overview
    index = browser.run("data.duplicates[0][0]")
    description = f"tile({index}, [{index}]).getAttribute('aria-label')"
    assert browser.run(description).endswith(", one of 12 near-duplicates")
    assert browser.run(f"tile({index}, [{index}]).querySelector('.badge').textContent") == "\xd712"
    assert browser.problems == []


def test_viewer_by_keyboard(page: Any) -> None:
    page.run("document.querySelector('#cluster-list .tile').focus()")
    first = focused(page)
    page.press("ArrowRight")
    second = focused(page)
    assert second != first
    page.press("ArrowDown")
    page.press("ArrowUp")
    assert focused(page) == second
    assert page.run("getComputedStyle(document.activeElement).outlineStyle") == "solid"  # the focus is visible
    page.press("Enter")
    page.until("document.querySelector('#viewer').open")
    name = page.run("document.querySelector('#viewer-name').textContent")
    assert second.startswith(name)
    page.press("ArrowRight")
    assert page.run("document.querySelector('#viewer-name').textContent") != name
    assert page.run("document.querySelector('#viewer-position').textContent").startswith("3 /")
    page.press("Escape")
    page.until("!document.querySelector('#viewer').open")
    assert focused(page) == second


def test_skip_link(page: Any) -> None:
    page.press("Tab")
    assert page.run("document.activeElement.className") == "skip"
    page.press("Enter")
    page.press("Tab")
    assert page.run("Boolean(document.activeElement.closest('main'))")


def test_search_filters_the_list(page: Any) -> None:
    page.press("/")
    assert focused(page) == "Search file names"
    page.type("img_01")
    count = page.run("data.ids.filter(id => id.toLowerCase().includes('img_01')).length")
    assert 0 < count < 25
    assert page.run("document.querySelectorAll('#list-rows tr').length") == count
    assert page.run("document.querySelector('#count').textContent") == f"{count} of 130 images"
    page.type("zzz")
    assert page.run("document.querySelector('#list-rows').textContent") == "No matches."


def test_list_sorts_and_pages(page: Any) -> None:
    page.run("sort.value = 'margin'; sort.dispatchEvent(new Event('change'))")
    assert page.run("margin[list.indices[0]]") == page.run("Math.min(...margin)")
    page.click("#list-pager button:last-child")
    assert "26–50 of 130" in page.run("document.querySelector('#list-pager').textContent")  # noqa: RUF001


def test_links_to_originals_with_unusual_names(page: Any, with_images: Path) -> None:
    for name in (*HOSTILE, "sub/IMG_0001.png"):
        index = page.run(f"data.ids.indexOf({js_string(name)})")
        page.run(f"view([{index}], 0)")
        href = page.run("document.querySelector('#viewer-link').href")
        linked = os.fsdecode(unquote_to_bytes(href.removeprefix("file://")))
        assert Path(linked) == with_images.parent / "my photos" / name
        assert Path(linked).is_file()
        page.press("Escape")


def js_string(text: str) -> str:
    return '"' + "".join(f"\\u{ord(char):04x}" for char in text) + '"'


def test_map_opens_images_by_keyboard_and_mouse(page: Any) -> None:
    page.run("document.querySelector('#map').scrollIntoView()")
    page.settle()
    page.until(f"new Set({PIXELS}).size > 50")
    page.run("document.querySelector('#canvas').focus()")
    page.press("ArrowRight")
    page.until("!document.querySelector('#tip').hidden && document.querySelector('#tip img').naturalWidth > 0")
    page.press("ArrowLeft")
    page.press("Enter")
    page.until("document.querySelector('#viewer').open")
    page.press("Escape")
    # With the mouse: clicking where the preview appears opens an image of the highlighted cluster.
    page.click("#legend button:nth-child(2)")
    assert page.run("highlight.cluster") == page.run("clusters[1]")
    x, y, width, height = page.run("(b => [b.x, b.y, b.width, b.height])($('canvas').getBoundingClientRect())")
    opened = False
    for u in np.linspace(0.05, 0.95, 40):
        for v in (0.2, 0.35, 0.5, 0.65, 0.8):
            page.send("Input.dispatchMouseEvent", type="mouseMoved", x=x + u * width, y=y + v * height)
            if page.run("!document.querySelector('#tip').hidden"):
                page.point(x + u * width, y + v * height, click=True)
                opened = page.run("document.querySelector('#viewer').open && labels[viewer.indices[0]] === clusters[1]")
                break
        if opened:
            break
    assert opened


def test_map_zooms_and_resets(page: Any) -> None:
    drawn = "$('canvas').toDataURL()"
    page.click("#show-points")
    assert page.run("$('show-points').getAttribute('aria-pressed')") == "true"
    page.run("document.querySelector('#map').scrollIntoView()")
    page.settle()
    before = page.run(drawn)
    page.click("#zoom-in")
    assert page.run(drawn) != before
    page.click("#zoom-reset")
    assert page.run(drawn) == before


def test_search_highlights_points_on_the_map(page: Any) -> None:
    page.click("#show-points")
    page.run("document.querySelector('#map').scrollIntoView()")
    page.settle()
    painted = PIXELS + ".reduce((n, value, i) => n + (i % 4 === 3 && value > ALPHA), 0)"
    visible, opaque = page.run(painted.replace("ALPHA", "0")), page.run(painted.replace("ALPHA", "127"))
    page.run("search.value = 'img_01'; search.dispatchEvent(new Event('input'))")
    page.settle()
    assert page.run(painted.replace("ALPHA", "0")) > 0.9 * visible  # other points are dimmed, not removed
    assert page.run(painted.replace("ALPHA", "127")) < 0.9 * opaque


def test_light_and_dark_theme(browser: Any, with_images: Path) -> None:
    background = "getComputedStyle(document.body).backgroundColor"
    browser.open(with_images)
    browser.run("localStorage.clear()")
    browser.open(with_images)
    light = browser.run(background)
    browser.click("#theme")
    dark = browser.run(background)
    assert light != dark
    browser.open(with_images)
    assert browser.run(background) == dark  # remembered
    browser.press("t")
    assert browser.run(background) == light
    browser.run("localStorage.clear()")
    browser.open(with_images, dark=True)
    assert browser.run(background) == dark  # the system's theme
    assert browser.problems == []


@pytest.mark.parametrize("width", [1280, 390, 360])
@pytest.mark.parametrize("kind", ["with_images", "without_images"])
def test_page_fits_the_width_of_the_window(browser: Any, kind: str, width: int, request: pytest.FixtureRequest) -> None:
    browser.open(request.getfixturevalue(kind), width=width, height=800)
    # Not innerWidth, which grows with the contents on phones.
    fits = f"Math.max(document.documentElement.scrollWidth, document.body.scrollWidth) <= {width}"
    assert browser.run(fits)
    browser.run("location.hash = `cluster-${order.clusters[0]}`")
    browser.until("!document.querySelector('#detail').hidden")
    assert browser.run(fits)
    browser.run("document.querySelector('#unreadable')?.setAttribute('open', '')")
    assert browser.run(fits)
    long = browser.run("Math.max(...data.ids.map(id => id.length))")
    browser.run(f"view([data.ids.findIndex(id => id.length === {long})], 0)")
    browser.settle()
    assert browser.run(f"(b => b.left >= 0 && b.right <= {width})($('viewer').getBoundingClientRect())")
    assert browser.run("document.querySelector('#viewer').scrollWidth <= document.querySelector('#viewer').clientWidth")
    assert browser.problems == []


def test_ids_are_shown_without_images(browser: Any, without_images: Path) -> None:
    browser.open(without_images)
    assert browser.run("document.querySelectorAll('#cluster-list > li').length") == 20
    browser.click("#clusters-pager button:last-child")
    assert browser.run("document.querySelectorAll('#cluster-list > li').length") == 5
    assert browser.run("document.querySelectorAll('#cluster-list img').length") == 0
    browser.click("#cluster-list .tile")
    assert browser.run("document.querySelector('#viewer').open && document.querySelector('#viewer-link').hidden")
    browser.press("Escape")
    browser.run("$('order').value = 'name'; $('order').dispatchEvent(new Event('change'))")
    assert browser.run("document.querySelector('#cluster-list .name').textContent") == "Cluster 0"
    assert browser.run("window.hacked === undefined")
    assert browser.problems == []


def test_page_of_rows_never_speaks_of_images(browser: Any, without_images: Path) -> None:
    words = (
        "[document.title, document.body.innerText, ...[...document.querySelectorAll('*')].flatMap(e => "
        "['title', 'aria-label', 'alt', 'placeholder'].map(name => e.getAttribute(name) ?? ''))].join('\\n')"
    )
    browser.open(without_images)
    shown = [browser.run(words)]
    browser.run("location.hash = 'cluster-1'")
    browser.until("detail.cluster === 1")
    shown.append(browser.run(words))
    browser.click("#gallery .tile")
    assert browser.run("$('viewer').open && $('viewer-stage').hidden")
    shown.append(browser.run(words))
    browser.press("Escape")
    browser.run("$('canvas').focus()")
    browser.press("ArrowRight")
    browser.until("!$('tip').hidden")
    shown.append(browser.run(words))
    for text in shown:
        assert "281 rows in 25 clusters" in text
        assert not re.search("image|picture|photo|thumbnail|file", text, re.IGNORECASE)


def test_injected_scripts_are_blocked(browser: Any, with_images: Path) -> None:
    """Second line of defence: the Content Security Policy blocks scripts even if markup is injected."""
    browser.open(with_images)
    browser.run("document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=\"window.hacked=1\">')")
    browser.run(
        "document.body.append(Object.assign(document.createElement('script'), {textContent: 'window.hacked=1'}))"
    )
    browser.until_problem("Content Security Policy")
    assert browser.run("window.hacked === undefined")


def test_fifty_loads_without_an_error(browser: Any, with_images: Path) -> None:
    """Windows may be very narrow while they are opened; the map must be drawn correctly once they are not."""
    for load in range(50):
        browser.open(with_images, width=(1280, 390, 80, 40, 1)[load % 5], height=(900, 60, 1)[load % 3])
        browser.run("$('map').scrollIntoView()")
        browser.settle()
        assert browser.problems == [], f"load {load}"
    browser.send("Emulation.setDeviceMetricsOverride", width=1280, height=900, deviceScaleFactor=1, mobile=False)
    browser.until(f"new Set({PIXELS}).size > 50")
    assert browser.problems == []


def test_map_that_is_hidden_at_first(browser: Any, with_images: Path) -> None:
    """As in an inactive tab of another page: the canvas has no size until it is shown."""
    browser.open(with_images)
    browser.run("$('canvas-box').style.display = 'none'")
    browser.settle()
    browser.run("setHighlight({ cluster: 1 })")
    browser.settle()
    browser.run("setHighlight({ cluster: null }); $('canvas-box').style.display = ''; $('map').scrollIntoView()")
    browser.until("$('canvas').width > 0")
    browser.until(f"new Set({PIXELS}).size > 50")
    assert browser.problems == []


def test_thumbnail_that_cannot_be_decoded(browser: Any, with_images: Path, tmp_path: Path) -> None:
    """Its square stays coloured; the others are drawn."""
    text = with_images.read_text(encoding="utf-8")
    broken = re.sub(r'("thumbnails">\{"\d+":")([\w+/=]+)', lambda match: match[1] + match[2][:80], text)
    assert broken != text
    path = tmp_path / "report.html"
    path.write_text(broken, encoding="utf-8")
    browser.open(path)
    browser.run("$('map').scrollIntoView()")
    browser.until(f"new Set({PIXELS}).size > 50")
    assert browser.problems == []
