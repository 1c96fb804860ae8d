"""The explorer in a browser: editing by mouse and keyboard, at the sizes of a desktop and of a phone."""

from __future__ import annotations

import csv
import importlib.util
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("starlette", reason="the explorer needs cgmcr2[web]")
pytest.importorskip("uvicorn", reason="the explorer needs cgmcr2[web]")

from cgmcr2.explorer.session import Session

from ..serving import serve

pytestmark = pytest.mark.browser

HOSTILE = "<img src=x onerror=window.hacked=1>"
LABELS = "Array.from(app.data.labels)"


@pytest.fixture(scope="module")
def session(fitted: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    with Session(shutil.copytree(fitted, tmp_path_factory.mktemp("explored") / "run")) as session:
        yield session


@pytest.fixture(scope="module")
def url(browser: Any, session: Session) -> Iterator[str]:
    with serve(session) as url:
        yield url
        browser.send("Page.navigate", url="about:blank")  # an open page would report that its server is gone


@pytest.fixture(params=[1280, 390])
def page(browser: Any, session: Session, url: str, request: pytest.FixtureRequest) -> Any:
    """The page of the fitted clusters, in the window of a desktop and of a phone."""
    session.edit("back", {"line": 0}, session.snapshot.state)
    browser.open(url, width=request.param, height=800)
    yield browser
    assert unexpected(browser.problems) == []
    assert browser.run("window.hacked === undefined")
    assert browser.run(f"document.documentElement.scrollWidth <= {request.param}")


def unexpected(problems: list[str]) -> list[str]:
    """Problems that are not about the speed of the graphics driver."""
    return [problem for problem in problems if "WebGL" not in problem]


def edits(page: Any) -> int:
    return int(page.run("app.data.history.log.length"))


def wait_for_edit(page: Any, before: int) -> None:
    page.until(f"app.data.history.log.length > {before}")
    page.settle()


def go(page: Any, view: str) -> None:
    page.run(f"app.go('{view}')")
    page.until(f"!document.getElementById('view-{view.split('-')[0]}').hidden")
    page.settle()


def replace_text(page: Any, text: str) -> None:
    """Type into the focused field, which has its contents selected."""
    page.type(text)
    page.press("Enter")


def test_edit_everything_and_undo_it(page: Any, session: Session, tmp_path: Path) -> None:
    """Rename, merge, split, move by lasso, review, undo everything, export."""
    fitted = page.run(LABELS)
    page.until("[...document.querySelectorAll('.card img')].slice(0, 5).every(i => i.complete && i.naturalWidth)")

    before = edits(page)
    page.click(".card .icon")
    replace_text(page, HOSTILE)
    wait_for_edit(page, before)
    assert page.run(f"document.querySelector('#cluster-list').textContent.includes({json.dumps(HOSTILE)})")

    before = edits(page)
    page.click(".card:nth-child(1) input")
    page.click(".card:nth-child(2) input")
    assert page.run("document.querySelectorAll('.card.chosen').length") == 2
    page.press("m")
    listed = set(page.run("[...document.querySelectorAll('dialog[open] bdi')].map(name => name.textContent)"))
    assert listed == set(page.run("[...document.querySelectorAll('.card.chosen .name')].map(name => name.textContent)"))
    replace_text(page, "merged")
    wait_for_edit(page, before)
    assert page.run("document.querySelectorAll('.card').length") == 2

    before = edits(page)
    merged = page.run("app.data.names.indexOf('merged')")
    go(page, f"cluster-{merged}")
    page.press("p")
    page.until("document.querySelectorAll('.part').length === 2")
    page.run("document.querySelector('.part:nth-child(2) input').focus()")
    page.type("part")
    page.click("dialog .dialog-actions .primary")
    wait_for_edit(page, before)
    page.until("!document.getElementById('view-clusters').hidden")
    assert page.run("document.querySelectorAll('.card').length") == 3

    before = edits(page)
    go(page, "map")
    page.until("document.getElementById('map-message').hidden")
    page.click("#lasso")
    x, y, width, height = page.box("#canvas")
    corners = [(0.02, 0.02), (0.4, 0.02), (0.4, 0.7), (0.02, 0.7), (0.02, 0.02)]
    page.drag([(x + u * width, y + v * min(height, 780 - y)) for u, v in corners])
    selected = page.run("[...app.selection].sort((a, b) => a - b)")
    assert 0 < len(selected) <= 40
    page.press("m")
    replace_text(page, "lassoed")
    wait_for_edit(page, before)
    number = page.run("app.data.names.indexOf('lassoed')")
    assert [row for row, label in enumerate(page.run(LABELS)) if label == number] == selected
    assert page.run("app.selection.size") == 0

    go(page, "review")
    for answer in range(10):
        page.until("!document.querySelector('.review').hidden")
        before = edits(page)
        page.press("n" if answer == 5 else str(1 + answer % 2))
        wait_for_edit(page, before)
    assert session.snapshot.clustering.locked.sum() == 9

    while page.run("app.data.history.can_undo"):
        before = edits(page)
        page.press("z", ctrl=True)
        wait_for_edit(page, before)
    assert page.run(LABELS) == fitted
    assert page.run("app.data.locked.every(locked => !locked)")
    np.testing.assert_array_equal(session.snapshot.clustering.labels, session.edits.fitted.labels)

    page.click("#tools button[aria-label='Export']")
    page.run("document.getElementById('export-format').value = 'csv'")
    page.run("document.getElementById('export-folder').select()")
    replace_text(page, str(tmp_path / "out.csv"))
    page.until("document.querySelector('dialog code')")
    with open(tmp_path / "out.csv", encoding="utf-8") as file:
        assert [int(line["cluster"]) for line in csv.DictReader(file)] == fitted
    page.press("Escape")
    downloaded = page.run("fetch('export/labels.csv').then(answer => answer.text())")
    assert downloaded.encode() == (tmp_path / "out.csv").read_bytes()


def test_select_by_mouse_and_keyboard(page: Any) -> None:
    go(page, f"cluster-{page.run('app.data.clusters[0].number')}")
    page.until("document.querySelectorAll('.cell').length > 5")
    size = page.run("app.data.clusters[0].size")
    selected = "document.querySelectorAll('.cell[aria-selected=true]').length"
    page.press("ArrowRight")
    page.press(" ")
    page.press("ArrowRight", shift=True)
    page.press("ArrowRight", shift=True)
    assert page.run(selected) == 3
    assert page.run("document.querySelectorAll('.cell')[1].getAttribute('aria-selected')") == "true"
    active = page.run("document.querySelector('.grid').getAttribute('aria-activedescendant')")
    assert active == page.run("document.querySelectorAll('.cell')[3].id")
    page.press("a", ctrl=True)
    assert page.run("app.selection.size") == size
    page.press("Escape")
    assert page.run("app.selection.size") == 0
    first, second = page.box(".cell:nth-of-type(2)"), page.box(".cell:nth-of-type(3)")
    page.drag([(first[0] + 20, first[1] + 20), (first[0] + 30, first[1] + 30), (second[0] + 40, second[1] + 40)])
    assert page.run("app.selection.size") == 2
    page.press("Enter")
    page.until("document.getElementById('viewer').open")
    page.press("Escape")
    assert page.run("app.selection.size") == 2  # Escape has closed the viewer only


def test_search_by_file_name(page: Any, session: Session) -> None:
    page.press("/")
    page.type("1.PNG")
    expected = [row for row, id in enumerate(session.edits.fitted.ids) if "1.png" in id]
    page.until(f"document.getElementById('count').textContent === '{len(expected)} of 60 images'")
    shown = page.run("[...document.querySelectorAll('#view-images .cell')].map(cell => Number(cell.dataset.row))")
    assert shown == expected
    page.until("document.querySelector('#view-images .cell .file').textContent.endsWith('1.png')")


def test_similar_images_of_a_row_and_of_a_dropped_file(page: Any) -> None:
    shown = "[...document.querySelectorAll('#view-similar .cell')].map(cell => Number(cell.dataset.row))"
    page.run("app.select([3])")
    page.press("s")
    page.until(f"{shown}[0] === 3")
    similar = page.run(shown)
    page.run(
        "fetch('images/3').then(answer => answer.blob()).then(blob => { const data = new DataTransfer();"
        "data.items.add(new File([blob], 'dropped.jpg', { type: 'image/jpeg' }));"
        "for (const type of ['dragover', 'drop'])"
        " document.body.dispatchEvent(new DragEvent(type, { dataTransfer: data, bubbles: true, cancelable: true })); })"
    )
    page.until("document.querySelector('.query bdi')?.textContent === 'dropped.jpg'")
    page.until(f"{shown}.length === {len(similar)}")
    assert page.run(f"{shown}.slice(0, 5).includes(3)")
    assert page.run("document.querySelector('.drop').hidden")


def test_move_lock_exclude_and_new_cluster_by_keyboard(page: Any, session: Session) -> None:
    source, target = page.run("app.data.clusters.slice(0, 2).map(entry => entry.number)")
    go(page, f"cluster-{source}")

    def act(key: str, text: str | None = None) -> int:
        """Select the first image, press a key, and return the row."""
        page.until("document.querySelector('.cell')")
        page.run("app.select([])")
        page.press("Home")
        page.press(" ")
        row = int(page.run("[...app.selection][0]"))
        before = edits(page)
        page.press(key)
        if text is not None:
            replace_text(page, text)
        wait_for_edit(page, before)
        return row

    row = act("m", page.run(f"app.data.names[{target}]"))
    assert session.snapshot.clustering.labels[row] == target
    row = act("n", HOSTILE)
    assert session.snapshot.clustering.names[session.snapshot.clustering.labels[row]] == HOSTILE
    row = act("x")
    assert session.snapshot.clustering.labels[row] == session.snapshot.clustering.excluded
    row = act("l")
    assert session.snapshot.clustering.locked[row]
    assert page.run("document.querySelector('.cell .locked') !== null")
    before = edits(page)
    page.click(".message button")  # Undo
    wait_for_edit(page, before)
    assert not session.snapshot.clustering.locked[row]


def test_confirmed_images_change_only_if_the_person_insists(page: Any, session: Session) -> None:
    source, target = page.run("app.data.clusters.slice(0, 2).map(entry => entry.number)")
    rows = session.snapshot.clustering.rows(source)[:3].tolist()
    page.run(f"app.edit('lock', {{ rows: [{rows[1]}] }})")
    go(page, f"cluster-{source}")
    before = edits(page)
    page.run(f"app.select({rows})")
    page.press("m")
    replace_text(page, page.run(f"app.data.names[{target}]"))
    page.until("document.querySelector('.message.error')")
    assert "1 image is confirmed" in page.run("document.querySelector('.message').textContent")
    assert edits(page) == before
    page.click(".message button")  # Change anyway
    wait_for_edit(page, before)
    assert set(session.snapshot.clustering.labels[rows].tolist()) == {target}
    assert page.run("app.selection.size") == 0
    page.press("z", ctrl=True)
    page.until(f"app.data.labels[{rows[0]}] === {source}")
    assert session.snapshot.clustering.locked[rows[1]]


def test_learn_from_edits(page: Any, session: Session) -> None:
    """What would move is shown first; a second click on Accept while the first is being saved does nothing."""
    rows = session.snapshot.clustering.rows(0)[:6].tolist()
    page.run(
        f"app.edit('batch', {{ edits: [['new', {{ rows: {rows}, name: 'pale' }}], ['lock', {{ rows: {rows} }}]] }})"
    )
    page.until("app.data.names.includes('pale')")
    go(page, "refine")
    before = edits(page)
    page.click("#refine-start")
    page.until("!document.querySelector('#view-refine .decision').hidden")
    assert edits(page) == before
    assert page.run("document.activeElement.id") == "refine-accept"
    changed = page.run("document.querySelectorAll('.moves .tile').length")
    assert changed > 0
    page.run("for (const click of [1, 2]) document.getElementById('refine-accept').click()")
    wait_for_edit(page, before)
    page.until("document.querySelector('#view-refine [role=status]').textContent.includes('moved')")
    assert edits(page) == before + 1
    assert not page.run("document.getElementById('refine-start').disabled")


def test_history_goes_back(page: Any, session: Session) -> None:
    cluster = page.run("app.data.clusters[0].number")
    for name in ("a", "b"):
        page.run(f"app.edit('rename', {{ cluster: {cluster}, name: '{name}' }})")
        page.until(f"app.data.names[{cluster}] === '{name}'")
    go(page, "history")
    before = edits(page)
    page.click("#history-list li:nth-child(2) button")
    wait_for_edit(page, before)
    assert session.snapshot.clustering.names[cluster] == "a"


def test_errors_are_shown_and_change_nothing(page: Any) -> None:
    a, b = page.run("app.data.clusters.slice(0, 2).map(entry => entry.number)")
    names = page.run("app.data.names")
    assert page.run(f"app.edit('rename', {{ cluster: {a}, name: app.data.names[{b}] }})") is False
    assert "Two clusters are called" in page.run("document.querySelector('.message[role=alert]').textContent")
    assert page.run("app.data.names") == names
    page.problems.clear()  # the browser reports the status 400


MESSAGE = "document.querySelector('.message')?.textContent ?? ''"


def test_rename_with_an_unchanged_emptied_or_repeated_name(page: Any) -> None:
    page.run("app.edit('rename', { cluster: app.data.clusters[0].number, name: 'first' })")
    page.until("app.data.names.includes('first')")
    go(page, "clusters")
    card = f".card[data-cluster='{page.run('app.data.clusters[0].number')}']"
    other = page.run("app.data.clusters[1].name")
    height = page.box(card)[3]

    page.click(f"{card} .icon")
    assert page.box(card)[3] == height
    page.press("Enter")
    assert page.run("document.activeElement.className") == "open-card"
    assert page.run("!document.getElementById('view-clusters').hidden")

    page.click(f"{card} .icon")
    page.run("document.activeElement.value = ''")
    page.press("Enter")
    assert "The name of a cluster is empty" in page.run(MESSAGE)
    assert page.run("!document.getElementById('view-clusters').hidden")

    page.click(f"{card} .icon")
    replace_text(page, other)
    page.until(f"({MESSAGE}).startsWith('Two clusters are called')")
    page.settle()
    assert page.run("[document.activeElement.className, document.activeElement.value]") == ["rename", other]
    page.press("Escape")
    assert page.run(f"document.querySelector({json.dumps(card + ' .name')}).textContent") == "first"
    page.problems.clear()  # the browser reports the status 400


def open_review(page: Any) -> None:
    """Review the first images; the model has no doubts about these."""
    page.run(
        "void (app.source.review = async () => [0, 1, 2, 3, 4, 5].map(row => ({ row, first: app.data.labels[row],"
        "second: app.data.clusters.find(({ number }) => number !== app.data.labels[row]).number,"
        "p_first: 0.6, p_second: 0.4 })))"
    )
    page.click("nav a[href='#review']")
    page.until("document.querySelector('.review-image').dataset.row")


def test_a_part_of_a_name_never_makes_a_new_cluster(page: Any) -> None:
    """Not even if it is the name of the cluster that the image is in; that confirms the image."""
    row = 0
    page.run(f"app.edit('rename', {{ cluster: app.data.labels[{row}], name: 'chain saws' }})")
    page.until("app.data.names.includes('chain saws')")
    before, clusters = edits(page), page.run("app.data.clusters.length")
    page.run(f"app.go('images'); app.select([{row}])")
    page.press("m")
    page.type("chain")
    options = page.run("[...document.querySelectorAll('#choices li')].map(option => option.textContent)")
    assert options == ["chain sawsnow", "New cluster “chain”"]
    page.press("Enter")
    assert page.run(MESSAGE).startswith("1 image already in “chain saws”.")
    open_review(page)
    current = page.run("Number(document.querySelector('.review-image').dataset.row)")
    page.click("[data-key=O]")
    replace_text(page, page.run(f"app.data.names[app.data.labels[{current}]]")[1:])
    wait_for_edit(page, before)
    assert page.run(f"app.data.locked[{current}]") == 1
    assert page.run("app.data.clusters.length") == clusters
    page.until(f"({MESSAGE}).startsWith('Confirmed in')")
    assert page.run("document.activeElement.id") == "review-title"


def test_review_after_a_click_on_its_link(page: Any) -> None:
    row = "document.querySelector('.review-image').dataset.row"
    open_review(page)
    first = page.run(row)
    assert page.run("document.activeElement.id") == "review-title"
    page.run("document.querySelector(\"nav a[href='#review']\").focus()")
    page.press(" ")
    page.until(f"{row} !== '{first}'")
    now = page.run("[...document.querySelectorAll('.review-choice')].map(card => card.textContent.includes('now'))")
    assert sum(now) == 1


def test_show_only_the_selected_images(page: Any) -> None:
    page.press("/")
    page.type("no such name")
    page.until("document.getElementById('count').textContent === '0 of 60 images'")
    page.run("app.select([3, 4])")
    page.run("[...document.querySelectorAll('.selection-bar button')].find(b => b.textContent === 'Show').click()")
    page.until("document.getElementById('count').textContent === '2 images'")
    assert page.run("document.getElementById('search').value") == ""


def test_search_finds_clusters(page: Any) -> None:
    name = page.run("app.data.clusters[1].name")
    page.press("/")
    page.type(name.upper())
    page.until("!document.getElementById('found-clusters').hidden")
    page.click("#found-clusters a")
    page.until("!document.getElementById('view-cluster').hidden")
    assert page.run("document.getElementById('detail-title').textContent") == name


def test_the_order_stays_after_a_move(page: Any) -> None:
    source, target = page.run("app.data.clusters.slice(0, 2).map(entry => entry.number)")
    go(page, f"cluster-{source}")
    shown = "[...document.querySelectorAll('#view-cluster .cell')].map(cell => Number(cell.dataset.row))"
    page.run("document.getElementById('cluster-sort').value = 'margin'")
    page.run("document.getElementById('cluster-sort').dispatchEvent(new Event('change'))")
    page.settle()
    rows = page.run(shown)
    page.run(f"app.edit('lock', {{ rows: [{rows[1]}] }})")  # sorted again, it would be the last one
    page.until(f"app.data.locked[{rows[1]}]")
    page.run(f"app.edit('move', {{ rows: [{rows[2]}], cluster: {target} }})")
    page.until(f"app.data.labels[{rows[2]}] === {target}")
    page.settle()
    assert page.run(f"{shown}.slice(0, 4)") == [rows[0], rows[1], rows[3], rows[4]]


def test_undo_says_what_it_undid(page: Any) -> None:
    target = page.run("app.data.labels[0] ? 0 : 1")
    page.run(f"app.edit('move', {{ rows: [0], cluster: {target} }})")
    page.until(f"app.data.labels[0] === {target}")
    page.press("z", ctrl=True)
    name = page.run(f"app.data.names[{target}]")
    page.until(f"({MESSAGE}).startsWith({json.dumps(f'Undone: moved 1 image to “{name}”.')})")
    go(page, "history")
    lines = page.run("[...document.querySelectorAll('#history-list li')].map(line => line.textContent)")
    assert "(undone)" in lines[0]
    assert not any(line.lower().startswith(("undo", "redo", "go back to line")) for line in lines)
    page.run("app.go('clusters')")
    assert page.run(MESSAGE) == ""


def test_a_double_click_on_a_name_selects_nothing(page: Any) -> None:
    x, y, width, height = page.box(".card:nth-child(2) .open-card")
    x, y = x + width / 2, y + height / 2
    for count in (1, 2):
        for kind in ("mousePressed", "mouseReleased"):
            page.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", buttons=1, clickCount=count)
        page.settle()
        x, y, width, height = page.box(".cell")  # an image of the cluster that the first click has opened
        x, y = x + width / 2, y + height / 2
    assert page.run("app.selection.size") == 0
    assert page.run("!document.getElementById('viewer').open")
    page.point(x, y, click=True)
    assert page.run("app.selection.size") == 1


def test_cards_show_no_picture_twice(page: Any) -> None:
    rows = "[...card.querySelectorAll('.tile')].map(tile => tile.dataset.row)"
    for card in page.run(f"[...document.querySelectorAll('.card')].map(card => {rows})"):
        assert len(card) == len(set(card)) > 5


def test_edit_in_another_tab(page: Any, session: Session) -> None:
    cluster = page.run("app.data.clusters[0].number")
    session.edit("rename", {"cluster": cluster, "name": "other tab"}, session.snapshot.state)
    page.run(f"app.edit('rename', {{ cluster: {cluster}, name: 'this tab' }})")
    page.until("document.querySelector('.message[role=alert]')?.textContent.startsWith('Not applied')")
    assert page.run(f"app.data.names[{cluster}]") == "other tab"
    page.click(".message button")  # Try again
    page.until(f"app.data.names[{cluster}] === 'this tab'")
    page.problems.clear()  # the browser reports the status 409


def test_lost_server(browser: Any, fitted: Path, tmp_path: Path) -> None:
    """The page says so, and offers the edits again that were not saved."""
    with Session(shutil.copytree(fitted, tmp_path / "run")) as session:
        with serve(session) as url:
            browser.open(url)
            cluster = browser.run("app.data.clusters[0].number")
        assert browser.run(f"app.edit('rename', {{ cluster: {cluster}, name: 'kept' }})") is False
        assert browser.run(f"app.edit('rename', {{ cluster: {cluster}, name: 'second' }})") is False
        banner = browser.run("document.getElementById('banner').textContent")
        assert "does not answer" in banner
        assert "Not saved: your last 2 edits" in banner
        with serve(session, int(url.split(":")[2].split("/")[0])):
            browser.until("document.getElementById('banner').hidden")
            browser.until("document.querySelector('.message')?.textContent.includes('were not saved')")
            assert session.edits.log == []
            browser.click(".message button")  # Save them
            browser.until(f"app.data.names[{cluster}] === 'second'")
            assert [edit.arguments["name"] for edit in session.edits.log] == ["kept", "second"]
            browser.send("Page.navigate", url="about:blank")


VIEWS = (
    "clusters",
    "cluster-0",
    "map",
    "review",
    "refine",
    "images",
    "images-outlier",
    "similar-0",
    "duplicates",
    "history",
    "about",
)


def test_accessibility(browser: Any, url: str, session: Session) -> None:
    """axe-core finds nothing serious in any view and dialog, nor in the dark theme of some of them."""
    package = importlib.util.find_spec("axe_core_python")
    if package is None or package.origin is None:
        pytest.skip("axe-core is not installed (pip install axe-core-python)")
    session.edit("back", {"line": 0}, session.snapshot.state)
    browser.open(url)
    browser.run(Path(package.origin).with_name("axe.min.js").read_text(encoding="utf-8") + "; 1")

    def check(name: str) -> None:
        browser.settle()
        for theme in ("light", "dark") if name in ("clusters", "review", "selection", "viewer") else ("light",):
            browser.run(f"document.documentElement.dataset.theme = '{theme}'")
            passed, failed = browser.run(
                "axe.run(document, { preload: false }).then(({ passes, violations }) => [passes.map(rule => rule.id),"
                "violations.filter(rule => ['serious', 'critical'].includes(rule.impact))"
                ".map(rule => rule.id + ': ' + rule.nodes[0].html)])"
            )
            assert failed == [], (name, theme)
            assert "color-contrast" in passed  # axe leaves out a rule that it cannot apply

    for view in VIEWS:
        browser.run(f"app.select([]); app.go('{view}')")
        check(view)
    browser.run("app.go('images'); app.select([0, 1])")
    check("selection")
    for key in ("m", "?"):
        browser.press(key)
        check(f"dialog of {key}")
        browser.press("Escape")
    browser.run("app.view(0)")
    check("viewer")
