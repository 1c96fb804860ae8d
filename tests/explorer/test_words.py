"""Search by text and suggested names, over HTTP and in a browser."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cgmcr2 import Edits
from cgmcr2.explorer.session import Session

from ..serving import serve
from .conftest import Client


@pytest.fixture
def run(reading_run: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(reading_run, tmp_path / "run"))


def test_search_by_text(run: Path, connect: Any) -> None:
    client = connect(run)
    assert client.json("state")["can_read"]
    blue = client.json("search", text=" a blue thing ", count=15)
    assert {row % 3 for row in blue["rows"][1:]} == {2}
    assert blue["similarities"] == sorted(blue["similarities"], reverse=True)
    assert client.post("search", json={"text": " "}).json()["error"].startswith("The text of the search is empty")


def test_an_encoder_that_does_not_read_says_so(reader: Client) -> None:
    assert not reader.json("state")["can_read"]
    answer = reader.post("search", json={"text": "blue"})
    assert answer.status_code == 400
    assert "The encoder colours does not read text" in answer.json()["error"]


def test_words_of_a_file(connect: Any, fitted_features: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(fitted_features, tmp_path / "run"))
    np.savez(tmp_path / "words.npz", names=["first"], embeddings=np.eye(8)[:1])
    client = connect(run, None, tmp_path / "words.npz")
    assert client.json("state")["can_read"]
    features = np.load(fitted_features.parent / "features.npy")
    cosine = features[:, 0] / np.linalg.norm(features, axis=1)
    assert client.json("search", text="first", count=4)["rows"] == np.argsort(-cosine)[:4].tolist()
    assert "have no word 'last'" in client.post("search", json={"text": "last"}).json()["error"]


def test_words_of_another_width_are_refused(connect: Any, fitted_features: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(fitted_features, tmp_path / "run"))
    np.savez(tmp_path / "words.npz", names=["first"], embeddings=np.eye(5)[:1])
    answer = connect(run, None, tmp_path / "words.npz").post("search", json={"text": "first"})
    assert answer.json()["error"].startswith("The query has 5 features, but the images have 8")


def test_suggested_words_stay_after_edits_but_not_after_another_fit(run: Path, connect: Any) -> None:
    with Edits(run) as edits:
        edits.rename(0, "sky")
        labels = edits.clustering.labels
    client = connect(run)
    words = client.json("state")["suggestions"]
    assert words[str(labels[2])][0] == "blue"
    names = json.loads((run / "names.json").read_text())
    (run / "names.json").write_text(json.dumps(names | {"state": "fit-of-yesterday"}))
    client.session.__dict__.pop("_fixed_values")
    assert client.json("state")["suggestions"] == {}
    (run / "names.json").write_text("damaged")
    client.session.__dict__.pop("_fixed_values")
    assert client.json("state")["suggestions"] == {}


@pytest.mark.browser
@pytest.mark.parametrize("width", [1280, 390])
def test_search_and_suggestions_in_the_browser(browser: Any, run: Path, width: int) -> None:
    with Session(run) as session, serve(session) as url:
        browser.open(url, width=width, height=800)
        labels = session.snapshot.clustering.labels
        browser.click(".card .icon")
        number = browser.run("Number(document.querySelector('.card').dataset.cluster)")
        offered = browser.run("[...document.querySelector('.card input[type=text]').list.options].map(o => o.value)")
        assert sorted(offered) == ["blue", "green", "red"]
        assert offered[0] == ("red", "green", "blue")[np.bincount(np.flatnonzero(labels == number) % 3).argmax()]
        browser.press("Escape")
        browser.click("#nav a[href='#similar']")
        browser.type("something blue")
        browser.press("Enter")
        browser.until("document.querySelectorAll('#view-similar .cell').length > 5")
        rows = browser.run(
            "[...document.querySelectorAll('#view-similar .cell')].map(cell => Number(cell.dataset.row))"
        )
        assert {row % 3 for row in rows[1:6]} == {2}
        browser.run(f"app.select({rows[:4]})")
        browser.press("n")
        browser.type("sky")
        browser.press("Enter")
        browser.until("app.data.names.includes('sky')")
        assert session.snapshot.clustering.rows("sky").tolist() == sorted(rows[:4])
        assert browser.run(f"document.documentElement.scrollWidth <= {width}")
        assert [problem for problem in browser.problems if "WebGL" not in problem] == []
        browser.send("Page.navigate", url="about:blank")
