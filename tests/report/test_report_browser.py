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
from cgmcr2.consensus.levels import build_levels
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

# Different values of the pixels of the map: points and pictures have many colours, an empty map one.
COLOURS = (
    "(() => { const map = document.getElementById('canvas'), copy = document.createElement('canvas');"
    "[copy.width, copy.height] = [map.width, map.height];"
    "const context = copy.getContext('2d', {willReadFrequently: true});"
    "for (const layer of [document.getElementById('points'), map])"
    " if (layer.width && layer.height) context.drawImage(layer, 0, 0, map.width, map.height);"
    "return map.width && map.height && new Set(context.getImageData(0, 0, map.width, map.height).data).size; })()"
)
IDS = "app.data.labels.keys().map(row => app.source.id(row)).toArray()"


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
    assert problems(browser) == []
    assert browser.run("window.hacked === undefined")


def problems(browser: Any) -> list[str]:
    """Problems that are not about the speed of the graphics driver."""
    return [problem for problem in browser.problems if "WebGL" not in problem]


def go(page: Any, view: str) -> None:
    page.run(f"app.go('{view}')")
    page.until(f"!document.getElementById('view-{view.split('-')[0]}').hidden")
    page.settle()


def focused(page: Any) -> str:
    return str(page.run("document.activeElement.getAttribute('aria-label') || document.activeElement.id"))


def test_clusters_show_their_thumbnails(page: Any) -> None:
    assert page.run("document.querySelectorAll('#cluster-list > li').length") == K
    page.until(
        "[...document.querySelectorAll('#cluster-list img')].slice(0, 7).every(i => i.complete && i.naturalWidth > 0)"
    )
    assert page.run("document.querySelectorAll('#cluster-list > li:first-child .strip.typical .tile').length") == 5
    assert page.run("document.querySelector('#cluster-list').textContent.includes('</script><script>window.hacked')")
    assert page.run("document.title").startswith("130 images in 4 clusters")
    assert page.run("app.views.duplicates === undefined && document.querySelector('.badge') === null")


def test_key_figures(page: Any) -> None:
    sizes = page.run("app.data.clusters.map(entry => entry.size)")
    figures = page.run("[...document.querySelectorAll('#figures div')].map(div => div.innerText.replace('\\n', ' '))")
    assert figures[0] == f"{min(sizes)} to {max(sizes)} images per cluster"
    uncertain = page.run("app.data.margin.filter(margin => margin < 1000).length")
    assert f"{uncertain} uncertain images" in figures


def test_cluster_details(page: Any) -> None:
    page.click("#cluster-list > li:first-child .open-card")
    page.until("!document.querySelector('#view-cluster').hidden")
    first, second = page.run("app.data.clusters.toSorted((a, b) => b.size - a.size).slice(0, 2)")
    shown = "[...document.querySelectorAll('.cell')].map(cell => Number(cell.dataset.row))"
    assert page.run("document.querySelector('.cell').getAttribute('aria-setsize')") == str(first["size"])
    assert page.run(shown)[:5] == first["typical"][:5]
    page.run(
        "(sort => { sort.value = 'margin'; sort.dispatchEvent(new Event('change')); })"
        "(document.getElementById('cluster-sort'))"
    )
    assert page.run(shown)[:5] == first["uncertain"][:5]
    page.click("#next-cluster")
    page.until(f"location.hash === '#cluster-{second['number']}'")
    page.run("history.back()")
    page.until(f"location.hash === '#cluster-{first['number']}'")
    page.press("Escape")
    page.until("document.querySelector('#view-cluster').hidden")


def test_unknown_addresses_show_the_clusters(page: Any) -> None:
    for hash in ("cluster-99", "nothing", "cluster-x", "images-nothing", "main"):
        page.run(f"location.hash = '{hash}'")
        page.settle()
        visible = page.run("[...document.querySelectorAll('#views > :not([hidden])')].map(view => view.id)")
        assert visible == (["view-images"] if hash.startswith("images") else ["view-clusters"])


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
    go(browser, "cluster-1")
    pictures = browser.run("app.members(1).filter(row => app.source.thumbnail(row)).length")
    about = browser.run("document.getElementById('detail-about').textContent")
    assert f"Pictures of {pictures} of 150; the others are listed after them by name. Open the folder" in about
    folder = (many_images.parent / "photos").as_uri() + "/"
    assert browser.run("document.querySelector('#detail-about a[target]').href") == folder
    titles = set()
    for _ in range(60):  # only the visible tiles and some around them are in the document
        cells = browser.run(
            "[...document.querySelectorAll('.cell')].map(c => [c.title, Boolean(c.querySelector('img'))])"
        )
        assert len(cells) < 150
        titles |= {title for title, _ in cells}
        if len(titles) == 150:
            break
        browser.run("scrollBy(0, 300)")
        browser.settle()
    assert sorted(titles) == [f"IMG {number:03}.png" for number in range(1, 300, 2)]
    browser.run("scrollTo(0, 0)")
    browser.settle()
    cells = browser.run("[...document.querySelectorAll('.cell')].map(c => [c.title, Boolean(c.querySelector('img'))])")
    assert [picture for _, picture in cells] == [i < pictures for i in range(len(cells))]  # pictures come first
    browser.click(".cell")
    assert browser.run("document.getElementById('viewer-position').textContent") == "1 / 150"
    assert problems(browser) == []


def test_large_cluster_of_which_the_page_holds_a_sample(browser: Any, many_images: Path) -> None:
    browser.open(many_images.with_name("sample.html"), width=390)
    go(browser, "cluster-0")
    members, pictures = browser.run("(m => [m.length, m.filter(app.source.thumbnail).length])(app.members(0))")
    assert pictures < members < 150
    about = browser.run("document.getElementById('detail-about').textContent")
    expected = f"Pictures of {pictures} of 150; {members - pictures} others are listed after them by name. The file"
    assert expected in about
    go(browser, "images")
    assert "A random sample of 280 out of 300 images" in browser.run(
        "document.getElementById('view-images').textContent"
    )
    assert browser.run("document.documentElement.scrollWidth") <= 390
    assert problems(browser) == []


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
    go(browser, "duplicates")
    browser.until("document.querySelectorAll('#group-list > li').length === 10")
    titles = "[...document.querySelectorAll('#group-list > li')].map(li => li.querySelector('.title').textContent)"
    assert browser.run(titles)[:2] == ["12 imagesCluster 1", "2 imagesin 2 clusters"]
    browser.click("#groups-more")
    browser.until("document.querySelectorAll('#group-list > li').length === 15")
    browser.click("#group-list > li:first-child .tile")
    assert browser.run("document.getElementById('viewer-position').textContent") == "1 / 12"
    assert "Near-duplicates11 others" in browser.run("document.getElementById('viewer-details').textContent")
    browser.press("Escape")
    assert browser.run(f"document.documentElement.scrollWidth <= {width}")
    assert problems(browser) == []


def test_badges_of_near_duplicates(browser: Any, with_copies: Path) -> None:
    browser.open(with_copies)
    tiles = "[...document.querySelectorAll('#cluster-list > li:first-child .strip.typical .tile')]"
    groups = browser.run(tiles + ".map(tile => app.data.groups.findIndex(g => g.includes(Number(tile.dataset.row))))")
    assert len(groups) == len(set(groups)) == 5  # a group is shown once on a card
    row = browser.run("app.data.groups[0][0]")
    go(browser, f"cluster-{browser.run(f'app.data.labels[{row}]')}")
    cell = f"document.querySelector('.cell[data-row=\"{row}\"]')"
    assert browser.run(cell + ".getAttribute('aria-label')").endswith(", one of 12 near-duplicates")
    assert browser.run(cell + ".querySelector('.badge').textContent") == "\xd712"
    assert problems(browser) == []


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
    page.press("Escape")
    page.until("!document.querySelector('#viewer').open")
    assert focused(page) == second


def test_skip_link(page: Any) -> None:
    page.press("Tab")
    assert page.run("document.activeElement.className") == "skip"
    page.press("Enter")
    page.press("Tab")
    assert page.run("Boolean(document.activeElement.closest('main'))")


def test_search_filters_the_images(page: Any) -> None:
    page.press("/")
    assert focused(page) == "Search file names and clusters"
    page.type("img_01")
    count = page.run(f"{IDS}.filter(id => id.toLowerCase().includes('img_01')).length")
    assert 0 < count < 25
    page.until(f"document.querySelectorAll('#view-images .cell').length === {count}")
    assert page.run("document.querySelector('#count').textContent") == f"{count} of 130 images"
    page.type("zzz")
    page.until("document.querySelectorAll('#view-images .cell').length === 0")
    assert page.run("document.querySelector('#view-images .empty').hidden") is False


def test_images_are_sorted_and_listed(page: Any) -> None:
    go(page, "images-margin")
    first = "Number(document.querySelector('#view-images .cell').dataset.row)"
    assert page.run(f"app.data.margin[{first}]") == page.run("Math.min(...app.data.margin)")
    page.click("#nav a[href='#images-outlier']")
    page.until("document.getElementById('list-title').textContent === 'Outliers'")
    assert page.run(f"app.data.outlier[{first}]") == page.run("Math.max(...app.data.outlier)")
    page.click("[data-value=list]")
    assert page.run("document.querySelector('.cell.line .file').textContent") == page.run(f"app.source.id({first})")
    page.press("End")
    assert page.run("document.querySelector('.cell.active').getAttribute('aria-posinset')") == "130"


def test_selection_on_a_read_only_page(page: Any) -> None:
    go(page, "images")
    page.press("a", ctrl=True)
    bar = "document.querySelector('.selection-bar:not([hidden])')"
    assert page.run(bar + ".innerText.split('\\n').filter(Boolean)") == ["130 selected", "Show", "Copy names", "Clear"]
    page.press("Escape")
    assert page.run(bar) is None
    first = page.box("#view-images .cell")
    page.point(first[0] + 17, first[1] + 17, click=True)  # its check mark
    assert page.run("app.selection.size") == 1
    page.press("Escape")


def test_links_to_originals_with_unusual_names(page: Any, with_images: Path) -> None:
    for name in (*HOSTILE, "sub/IMG_0001.png"):
        index = page.run(f"{IDS}.indexOf({js_string(name)})")
        page.run(f"app.view({index})")
        href = page.run("document.querySelector('#viewer-link').href")
        linked = os.fsdecode(unquote_to_bytes(href.removeprefix("file://")))
        assert Path(linked) == with_images.parent / "my photos" / name
        assert Path(linked).is_file()
        page.press("Escape")


def js_string(text: str) -> str:
    return '"' + "".join(f"\\u{ord(char):04x}" for char in text) + '"'


def test_map_opens_images_by_keyboard_and_mouse(page: Any) -> None:
    go(page, "map")
    page.until(f"{COLOURS} > 50")
    page.run("document.querySelector('#canvas').focus()")
    page.press("ArrowRight")
    page.until("!document.querySelector('#tip').hidden && document.querySelector('#tip img').naturalWidth > 0")
    page.press("ArrowLeft")
    page.press("Enter")
    page.until("document.querySelector('#viewer').open")
    page.press("Escape")
    # With the mouse: clicking where the preview appears opens an image of the highlighted cluster.
    page.click("#legend button:nth-child(2)")
    name = page.run("document.querySelector('#legend button:nth-child(2)').textContent")
    x, y, width, height = page.box("#canvas")
    opened = False
    for u in np.linspace(0.05, 0.95, 40):
        for v in (0.2, 0.35, 0.5, 0.65, 0.8):
            page.send("Input.dispatchMouseEvent", type="mouseMoved", x=x + u * width, y=y + v * height)
            if page.run("!document.querySelector('#tip').hidden"):
                page.point(x + u * width, y + v * height, click=True)
                opened = page.run("document.querySelector('#viewer').open")
                break
        if opened:
            break
    assert opened
    assert page.run("document.querySelector('#viewer-details dd').textContent") == name


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
    assert problems(browser) == []


@pytest.mark.parametrize("width", [1280, 390, 360])
@pytest.mark.parametrize("kind", ["with_images", "without_images"])
def test_page_fits_the_width_of_the_window(browser: Any, kind: str, width: int, request: pytest.FixtureRequest) -> None:
    browser.open(request.getfixturevalue(kind), width=width, height=800)
    # Not innerWidth, which grows with the contents on phones.
    fits = f"Math.max(document.documentElement.scrollWidth, document.body.scrollWidth) <= {width}"
    assert browser.run(fits)
    for view in ("cluster-0", "images", "map"):
        go(browser, view)
        assert browser.run(fits), view
    browser.run("app.go('about'); document.querySelector('#unreadable')?.setAttribute('open', '')")
    assert browser.run(fits)
    browser.press("?")
    assert browser.run(fits)
    browser.press("Escape")
    browser.run(f"(ids => app.view(ids.indexOf(ids.toSorted((a, b) => b.length - a.length)[0])))({IDS})")
    browser.settle()
    left, _, box_width, _ = browser.box("#viewer")
    assert left >= 0
    assert left + box_width <= width
    assert browser.run("document.querySelector('#viewer').scrollWidth <= document.querySelector('#viewer').clientWidth")
    assert problems(browser) == []


def test_ids_are_shown_without_images(browser: Any, without_images: Path) -> None:
    browser.open(without_images)
    assert browser.run("document.querySelectorAll('#cluster-list > li').length") == 25
    assert browser.run("document.querySelectorAll('#cluster-list img').length") == 0
    browser.click("#cluster-list .tile")
    assert browser.run("document.querySelector('#viewer').open && document.querySelector('#viewer-link').hidden")
    browser.press("Escape")
    browser.run("(e => { e.value = 'name'; e.dispatchEvent(new Event('change')); })(document.getElementById('order'))")
    assert browser.run("document.querySelector('#cluster-list .name').textContent") == "Cluster 0"
    assert browser.run("window.hacked === undefined")
    assert problems(browser) == []


def test_page_of_rows_never_speaks_of_images(browser: Any, without_images: Path) -> None:
    words = (
        "[document.title, document.body.innerText, ...[...document.querySelectorAll('*')].flatMap(e => "
        "['title', 'aria-label', 'alt', 'placeholder'].map(name => e.getAttribute(name) ?? ''))].join('\\n')"
    )
    browser.open(without_images)
    shown = [browser.run(words)]
    for view in ("cluster-1", "images", "map"):
        go(browser, view)
        shown.append(browser.run(words))
    for key in ("a", "?"):
        go(browser, "cluster-1")
        browser.press(key, ctrl=key == "a")
        shown.append(browser.run(words))
    browser.press("Escape")
    browser.run("app.view(1)")
    assert browser.run("document.getElementById('viewer-stage').hidden")
    shown.append(browser.run(words))
    assert "281 rows in 25 clusters" in shown[0]
    for text in shown:
        assert not re.search("image|picture|photo|thumbnail|file", text, re.IGNORECASE), text


def test_injected_scripts_are_blocked(browser: Any, with_images: Path) -> None:
    """Second line of defence: the Content Security Policy blocks scripts even if markup is injected."""
    browser.open(with_images)
    browser.run("document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=\"window.hacked=1\">')")
    browser.run(
        "document.body.append(Object.assign(document.createElement('script'), {textContent: 'window.hacked=1'}))"
    )
    browser.until_problem("Content Security Policy")
    assert browser.run("window.hacked === undefined")


def test_windows_of_any_size(browser: Any, with_images: Path) -> None:
    """Windows may be very narrow while they are opened; the map must be drawn correctly once they are not."""
    for load in range(15):
        browser.open(with_images, width=(1280, 390, 80, 40, 1)[load % 5], height=(900, 60, 1)[load % 3])
        go(browser, "map")
        assert problems(browser) == [], f"load {load}"
    browser.send("Emulation.setDeviceMetricsOverride", width=1280, height=900, deviceScaleFactor=1, mobile=False)
    browser.until(f"{COLOURS} > 50")
    assert problems(browser) == []


def test_thumbnail_that_cannot_be_decoded(browser: Any, with_images: Path, tmp_path: Path) -> None:
    """Its square stays coloured; the others are drawn."""
    text = with_images.read_text(encoding="utf-8")
    broken = re.sub(r'("thumbnails">\{"\d+":")([\w+/=]+)', lambda match: match[1] + match[2][:80], text)
    assert broken != text
    path = tmp_path / "report.html"
    path.write_text(broken, encoding="utf-8")
    browser.open(path)
    go(browser, "map")
    browser.until(f"{COLOURS} > 50")
    assert problems(browser) == []


def test_the_slider_shows_coarser_and_finer_levels(browser: Any, tmp_path: Path) -> None:
    fitted = clustering([f"{i:03}.png" for i in range(120)], 4).rename(0, "cats")
    Z = np.array(fitted.embedding, dtype=np.float32)
    levels = build_levels(Z, Z, fitted.labels, 4, stable=(2, 9))
    assert levels is not None
    browser.open(write_report(fitted, tmp_path / "report.html", levels=levels, map_method="pca"), width=390)
    assert browser.run("document.querySelector('.level-marks').innerText.match(/\\d+/g).join()") == "4,2,4,9"
    before = browser.run("JSON.stringify(app.data.clusters)")
    for m, press in ((9, ".level-mark:nth-of-type(3)"), (2, ".level-mark:nth-of-type(1)")):
        browser.click(press)
        browser.until(f"app.data.clusters.length === {m}")
        expected = fitted.at_level(levels, m)
        assert browser.run("Array.from(app.data.labels)") == expected.labels.tolist()
        sizes = browser.run("app.data.clusters.map(entry => entry.size)")
        assert sizes == [int(size) for size in expected.sizes() if size]
        names = browser.run("app.data.clusters.map(entry => entry.name)")
        assert names == [expected.names[cluster] for cluster in expected.clusters]
        assert f"in {m} clusters" in browser.run("document.getElementById('headline').textContent")
    browser.run("document.getElementById('levels-slider').focus()")
    browser.press("ArrowRight")
    browser.until("app.data.clusters.length === 3")
    browser.click(".level-mark:nth-of-type(2)")
    browser.until("app.data.clusters.length === 4")
    assert browser.run("JSON.stringify(app.data.clusters)") == before
    assert browser.run("document.documentElement.scrollWidth") == 390
    assert browser.problems == []
