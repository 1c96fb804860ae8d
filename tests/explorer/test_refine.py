"""Review and learning from edits over HTTP; the learning itself is tested in ``tests/runs``."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from cgmcr2 import Clustering

from .conftest import Client


def test_a_refinement_is_shown_accepted_and_undone(client: Client, run: Path) -> None:
    assert client.json("state")["can_refine"]
    members = client.session.snapshot.clustering.rows
    moved = members(0)[:6].tolist()
    client.edit("batch", edits=[["new", {"rows": moved, "name": "pale"}], ["lock", {"rows": moved}]])
    before = client.session.snapshot
    answer = client.post("refine", json={}).json()
    assert answer["changed"] == sum(len(move["rows"]) for move in answer["moves"])
    assert client.session.snapshot is before
    assert not {row for move in answer["moves"] for row in move["rows"]} & set(moved)
    state = client.json("refine/accept", state=before.state)
    labels = client.session.snapshot.clustering.labels
    for move in answer["moves"]:
        assert set(labels[move["rows"]].tolist()) == {move["to"]}
    assert client.session.snapshot.clustering == Clustering.load(run)
    if answer["changed"]:
        assert state["history"]["log"][-1]["text"].startswith("refine")
        client.edit("undo")
    assert client.session.snapshot.clustering == before.clustering


def test_a_refinement_of_an_old_state_is_refused(client: Client) -> None:
    state = client.session.snapshot.state
    assert client.post("refine/accept", json={"state": state}).status_code == 400  # there is none
    client.edit("lock", rows=[0, 1, 2])
    client.post("refine", json={})
    client.edit("rename", cluster=0, name="dogs")
    answer = client.post("refine/accept", json={"state": client.session.snapshot.state})
    assert answer.status_code == 409
    assert "refine again" in answer.json()["error"]
    assert client.post("refine/discard", json={}).status_code == 200
    assert client.post("refine/accept", json={"state": client.session.snapshot.state}).status_code == 400


def test_without_edits_there_is_nothing_to_learn(client: Client) -> None:
    answer = client.post("refine", json={})
    assert answer.status_code == 400
    assert "nothing to learn" in answer.json()["error"]


def test_review_asks_for_images_that_nobody_has_confirmed(connect: Any, fitted_features: Path, tmp_path: Path) -> None:
    client = connect(Path(shutil.copytree(fitted_features, tmp_path / "run")))
    first = client.json("review?count=3")
    assert len(first) == 3
    assert all(question["first"] != question["second"] for question in first)
    client.edit("lock", rows=[first[0]["row"]])
    assert first[0]["row"] not in [question["row"] for question in client.json("review?count=60")]


def test_without_features_review_asks_by_margin(connect: Any, fitted_features: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(fitted_features, tmp_path / "run"))
    shutil.rmtree(run / "model")
    client = connect(run)
    assert not client.json("state")["can_refine"]
    assert client.post("refine", json={}).status_code == 400
    clustering = client.session.snapshot.clustering
    questions = client.json("review?count=5")
    assert [question["row"] for question in questions] == clustering.uncertain(n=5).tolist()
    assert all(question["p_first"] >= question["p_second"] for question in questions)
