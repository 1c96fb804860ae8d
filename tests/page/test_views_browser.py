"""Review, learning from edits, coarse to fine and near-duplicates of the explorer in a real browser."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = pytest.mark.browser

EDITS = (
    "app.data.history.log.filter((line) => !line.undone && !/^(undo|go back)/.test(line.text)).map(({ text }) => text)"
)
ROW = "document.querySelector('.review-image').dataset.row"


@pytest.fixture
def page(browser: Any, explorer: str) -> Any:
    """The page of the explorer; edits are undone afterwards."""
    browser.open(explorer)
    yield browser
    browser.run("app.edit('back', { line: 0 })")
    assert browser.problems == []


def test_review_by_keyboard(page: Any) -> None:
    page.run("app.go('review')")
    page.until(ROW)
    asked = []
    for key in ("1", "2", "n", " "):
        row = page.run(ROW)
        asked.append(
            (row, page.run("[...document.querySelectorAll('.review-name bdi')].map((name) => name.textContent)"))
        )
        page.press(key)
        page.until(f"{ROW} !== '{row}'")
    page.until(f"{EDITS}.length === 3")
    clusters = [page.run(f"app.data.names[app.data.labels[{row}]]") for row, _ in asked]
    assert clusters[0] == asked[0][1][0]
    assert clusters[1] == asked[1][1][1]
    assert clusters[2] not in asked[2][1]
    assert [page.run(f"app.data.locked[{row}]") for row, _ in asked] == [1, 1, 0, 0]
    page.press("u")  # the skipped image returns
    page.until(f"{ROW} === '{row}'")
    page.press("u")
    page.until(f"{EDITS}.length === 2")


def test_review_with_another_cluster(page: Any) -> None:
    page.run("app.go('review')")
    page.until(ROW)
    row = page.run(ROW)
    page.click("[data-key=O]")
    page.until("document.activeElement.matches('dialog input')")
    page.type("something else")
    page.press("Enter")
    page.until(f"{EDITS}.length === 1")
    assert page.run(f"[app.data.names[app.data.labels[{row}]], app.data.locked[{row}]]") == ["something else", 1]


def test_review_asks_about_every_image_once(page: Any) -> None:
    """More answers than one block of questions, as fast as the keys can be pressed."""
    page.run("app.go('review')")
    page.until(ROW)
    rows = []
    while page.run("!document.querySelector('.review').hidden"):
        rows.append(page.run(ROW))
        page.press("1")
        page.until(
            f"{ROW} !== '{rows[-1]}' || document.querySelector('#view-review .empty').textContent.startsWith('No more')"
        )
    assert len(rows) == len(set(rows)) == 60
    page.until("app.data.reviewed === 60")


STATUS = "document.querySelector('#view-refine [role=status]').textContent"


def test_learning_from_answers(page: Any) -> None:
    page.run("app.go('review')")
    page.until(ROW)
    for key in "1n":
        row = page.run(ROW)
        page.press(key)
        page.until(f"{ROW} !== '{row}'")
    page.until(f"{EDITS}.length === 2")
    page.click("#view-review .head button")
    page.until(f"/^No image would move|would move, in/.test({STATUS})")
    if "groups" in page.run(STATUS):
        page.click("#refine-accept")
        page.until(f"{EDITS}.at(-1).startsWith('refine')")


def test_moves_are_shown_before_they_count(page: Any) -> None:
    page.run("app.go('refine')")
    page.run(
        "void (app.source.refine = async () => ({ changed: 3, seconds: 0.5,"
        "moves: [{ from: 0, to: 1, rows: [3] }, { from: 1, to: 2, rows: [4, 7] }] }))"
    )
    page.click("#refine-start")
    page.until("!document.querySelector('.decision').hidden")
    assert page.run(STATUS) == "3 images would move, in 2 groups. Computed in 0.5 s."
    cells = "[...document.querySelectorAll('.moves td:not(:first-child, :last-child)')].map((cell) => cell.textContent)"
    assert page.run(cells) == ["Cluster 1", "Cluster 2", "2", "Cluster 0", "Cluster 1", "1"]
    tiles = "[...document.querySelectorAll('.moves .tile')].map((tile) => Number(tile.dataset.row))"
    assert page.run(tiles) == [4, 7, 3]
    assert page.run("document.activeElement.id") == "refine-accept"
    for _ in range(2):  # nothing is left to move
        page.run("document.querySelector('.moves input:checked').click()")
    assert page.run("document.querySelector('#refine-accept').disabled")
    page.click("#refine-discard")
    page.until(f"{STATUS}.startsWith('Discarded')")
    assert page.run(f"{EDITS}.length") == 0
    assert page.run("document.querySelector('.moves table')") is None


def test_fewer_and_more_clusters(page: Any) -> None:
    names = page.run("app.data.names")
    for clusters, verb in ((2, "merge"), (5, "split")):
        page.run("app.go('clusters')")
        page.click("#levels")
        page.run(
            f"(slider => {{ slider.value = {clusters}; slider.dispatchEvent(new Event('input')); }})"
            "(document.getElementById('levels-slider'))"
        )
        page.until("!document.querySelector('dialog[open] .primary').disabled")
        assert page.run("document.querySelectorAll('.level-group img').length") > 5
        page.click("dialog[open] .primary")
        page.until(f"app.data.clusters.length === {clusters}")
        assert verb in page.run(EDITS)[-1]
        kept = page.run("app.data.clusters.map(({ number, name }) => [number, name])")
        assert all(names[number] == name for number, name in kept if number < len(names))
        page.run("app.undo()")
        page.until("app.data.clusters.length === 3")


def test_near_duplicates_are_excluded(page: Any) -> None:
    excluded = "[...app.data.labels].flatMap((label, row) => (label === app.data.excluded ? [row] : []))"
    page.run("app.go('duplicates')")
    page.until("document.querySelectorAll('#group-list > li').length === app.data.duplicate_groups")
    groups = page.run("app.source.duplicates(0, 100).then(({ groups }) => groups.map(({ rows }) => rows))")
    page.click("#group-list > li:first-child .copy:last-child input")  # keep another one than proposed
    keep = page.run("Number(document.querySelector('#group-list .tile').dataset.row)")
    page.click("#group-list > li:first-child .title button")
    page.until("app.data.excluded !== null")
    assert page.run(excluded) == sorted(set(groups[0]) - {keep})
    assert page.run("document.querySelector('#group-list .title button').disabled")
    page.click("#exclude-all")
    copies = sum(len(rows) - 1 for rows in groups)
    page.until(f"{excluded}.length === {copies}")
    assert all(len(set(rows) & set(page.run(excluded))) == len(rows) - 1 for rows in groups)


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("view", ["map", "review", "duplicates"])
def test_views_fit_a_phone(browser: Any, explorer: str, view: str, dark: bool) -> None:
    browser.open(f"{explorer}#{view}", width=390, height=844, dark=dark)
    browser.until(f"!document.getElementById('view-{view}').hidden")
    browser.settle()
    assert browser.run("document.documentElement.scrollWidth") == 390
    assert browser.problems == []
