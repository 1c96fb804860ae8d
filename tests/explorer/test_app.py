from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from cgmcr2 import Clustering
from cgmcr2.runs import RunFolder

from .conftest import Client


def rows_of(client: Client, n: int = 60) -> dict[str, Any]:
    """The values of ``GET rows`` by name."""
    answer = client.get("rows")
    assert answer.headers["X-State"] == client.session.snapshot.state
    names = ("labels", "runner_up", "confidence", "margin", "outlier", "typicality")
    values = np.frombuffer(answer.content[: 12 * n], "<u2").reshape(6, n)
    return {**dict(zip(names, values, strict=True)), "locked": np.frombuffer(answer.content[12 * n :], np.uint8)}


def test_state_and_rows_describe_the_run(reader: Client) -> None:
    state, clustering = reader.json("state"), Clustering.load(reader.session.run.path)
    assert (state["n"], state["item"], state["source"], state["editable"]) == (60, "image", "photos", True)
    assert state["title"] == "60 images in 3 clusters"
    assert [cluster["size"] for cluster in state["clusters"]] == clustering.sizes().tolist()
    assert state["names"] == clustering.names
    assert state["history"] == {"log": [], "can_undo": False, "can_redo": False}
    rows = rows_of(reader)
    assert rows["labels"].tolist() == clustering.labels.tolist()
    assert np.abs(rows["confidence"] / 10_000 - clustering.confidence).max() < 1e-4
    assert not rows["locked"].any()


def test_every_verb_changes_the_state_and_the_folder(client: Client, run: Path) -> None:
    members = client.session.snapshot.clustering.rows
    state = client.edit("rename", cluster=0, name="dogs")
    assert state["names"][0] == "dogs"
    moved = members(1)[:2].tolist()
    client.edit("move", rows=moved, cluster=0)
    assert rows_of(client)["labels"][moved].tolist() == [0, 0]
    client.edit("new", rows=[members(2)[0].item()], name="cats")
    client.edit("exclude", rows=[members(2)[0].item()])
    client.edit("lock", rows=moved)
    assert rows_of(client)["locked"].nonzero()[0].tolist() == moved
    assert client.json("state")["reviewed"] == 2
    client.edit("unlock", rows=[moved[0]])
    client.edit("reject", rows=[moved[0]], clusters=[0])
    client.edit("split", cluster=2, parts=[members(2)[1:4].tolist()], names=["birds"])
    client.edit("merge", clusters=[0, 1], name="all")
    row = int(members(2)[-1])
    client.edit("batch", edits=[["move", {"rows": [row], "cluster": 0}], ["lock", {"rows": [row]}]])
    final = client.session.snapshot
    assert final.clustering.locked[row]
    assert final.clustering == Clustering.load(run)
    log = client.json("state")["history"]
    assert [line["undone"] for line in log["log"]] == [False] * 10
    for _ in log["log"]:
        state = client.edit("undo")
    assert not state["history"]["can_undo"]
    assert state["names"][:3] == ["Cluster 0", "Cluster 1", "Cluster 2"]
    assert client.session.snapshot.clustering == Clustering.load(run, edits=False)
    client.edit("back", line=10)
    assert client.session.snapshot.clustering == final.clustering
    client.edit("undo")
    client.edit("redo")
    assert client.session.snapshot.clustering == final.clustering


def test_the_geometry_after_edits_is_that_of_a_new_start(client: Client, run: Path, connect: Any) -> None:
    client.edit("move", rows=[0, 1, 2], cluster=1)
    client.edit("merge", clusters=[0, 2])
    client.edit("undo")
    values, rows = client.session.snapshot.values, client.get("rows").content
    client.session.__exit__(None, None, None)
    again = connect(run)
    assert again.session.snapshot.values["clusters"] == values["clusters"]
    assert again.get("rows").content == rows


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"verb": "drop", "arguments": {}}, "There is no verb 'drop'; choose from rename, merge"),
        ({"verb": "_apply", "arguments": {"verb": "undo"}}, "There is no verb '_apply'"),
        ({"verb": "__exit__", "arguments": {}}, "There is no verb '__exit__'"),
        ({"verb": "refine", "arguments": {"rows": [0], "clusters": [1]}}, "There is no verb 'refine'"),
        ({"verb": "move", "arguments": {"rows": [60], "cluster": 0}}, "in 0 ... 59"),
        ({"verb": "move", "arguments": {"rows": [-1], "cluster": 0}}, "not valid"),
        ({"verb": "move", "arguments": {"rows": [2**70], "cluster": 0}}, "not valid"),
        ({"verb": "move", "arguments": {"rows": [0.5], "cluster": 0}}, "not valid"),
        ({"verb": "move", "arguments": {"rows": ["00.png"], "cluster": 0}}, "not valid"),
        ({"verb": "move", "arguments": {"rows": [], "cluster": 0}}, "at least one image"),
        ({"verb": "move", "arguments": {"rows": [0], "cluster": 9}}, "There is no cluster 9"),
        ({"verb": "move", "arguments": {"rows": [0], "cluster": 0, "more": 1}}, "not valid"),
        ({"verb": "rename", "arguments": {"cluster": 0, "name": " "}}, "The name of a cluster is empty"),
        ({"verb": "rename", "arguments": {"cluster": 0, "name": "Cluster 1"}}, "Two clusters are called 'Cluster 1'"),
        ({"verb": "split", "arguments": {"cluster": 0, "parts": 2}}, "not valid"),
        ({"verb": "batch", "arguments": {"edits": [["batch", {"edits": []}]]}}, "There is no verb 'batch'"),
        ({"verb": "batch", "arguments": {"edits": [["undo", {}]]}}, "There is no verb 'undo'"),
        ({"verb": "batch", "arguments": {"edits": []}}, "at least one edit"),
        ({"verb": "undo"}, "There is no edit to undo."),
        ({"verb": "back", "arguments": {"line": 5}}, "5 is none of them"),
        ({"verb": 3}, "The request is not valid"),
    ],
    ids=str,
)
def test_invalid_edits_change_nothing(reader: Client, body: dict[str, Any], message: str) -> None:
    answer = reader.post("edit", json={**body, "state": reader.session.snapshot.state})
    assert answer.status_code == 400
    assert message in answer.json()["error"]
    assert (reader.session.run.path / "edits.jsonl").read_bytes() == b""


def test_an_edit_of_an_old_state_is_refused(client: Client) -> None:
    old = client.json("state")["state"]
    client.edit("rename", cluster=0, name="dogs")
    body = {"verb": "rename", "arguments": {"cluster": 0, "name": "cats"}, "state": old}
    answer = client.post("edit", json=body)
    assert answer.status_code == 409
    assert "Another page has edited" in answer.json()["error"]
    assert client.json("state")["names"][0] == "dogs"


def test_of_simultaneous_edits_one_wins(client: Client, run: Path) -> None:
    state = client.session.snapshot.state

    def rename(number: int) -> int:
        body = {"verb": "rename", "arguments": {"cluster": 0, "name": f"name {number}"}, "state": state}
        return client.post("edit", json=body).status_code

    with ThreadPoolExecutor(8) as pool:
        codes = list(pool.map(rename, range(8)))
    assert sorted(codes) == [200] + [409] * 7
    assert Clustering.load(run).names[0] == f"name {codes.index(200)}"


def test_slow_requests_block_neither_thumbnails_nor_edits(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    finish = threading.Event()
    monkeypatch.setattr(client.session, "preview_split", lambda cluster, parts: [finish.wait(60)])
    with ThreadPoolExecutor(4) as pool:
        slow = [pool.submit(client.json, "split-preview", cluster=0, parts=2) for _ in range(4)]
        assert client.get("thumbnails/0").status_code == 200
        assert client.edit("rename", cluster=0, name="dogs")["names"][0] == "dogs"
        assert client.get("").status_code == 200
        assert not any(answer.done() for answer in slow)
        finish.set()
        assert [answer.result() for answer in slow] == [{"parts": [True]}] * 4


def test_a_server_that_stops_does_not_wait_for_slow_requests(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    started, finish = threading.Event(), threading.Event()
    monkeypatch.setattr(client.session, "preview_split", lambda *_: (started.set(), finish.wait(60)))
    with ThreadPoolExecutor(1) as pool:
        slow = pool.submit(client.post, "split-preview", json={"cluster": 0})
        assert started.wait(60)
        client.explorer.stop()
        answer = slow.result(60)
    finish.set()
    assert (answer.status_code, answer.json()) == (503, {"error": "The server was stopped."})


def test_ids(reader: Client) -> None:
    assert reader.json("ids", rows=[3, 0]) == ["03.png", "00.png"]
    assert reader.post("ids", json={"rows": [60]}).status_code == 404


def test_dates_are_those_of_the_files(reader: Client, photos: Path) -> None:
    assert reader.json("state")["has_dates"]
    dates = np.frombuffer(reader.get("dates").content, "<u4")
    assert dates.tolist() == [int((photos / id).stat().st_mtime) for id in reader.session.edits.fitted.ids]


def test_thumbnails_and_images(reader: Client) -> None:
    answer = reader.get("thumbnails/4")
    assert answer.headers["Content-Type"] == "image/webp"
    assert "max-age" in answer.headers["Cache-Control"]
    image = reader.get("images/4")
    assert image.headers["Content-Type"] == "image/jpeg"
    assert image.content[:2] == b"\xff\xd8"


def test_a_missing_image_is_404_and_the_rest_works(connect: Any, run: Path, photos: Path, tmp_path: Path) -> None:
    moved = Path(shutil.copytree(photos, tmp_path / "moved"))
    (moved / "00.png").unlink()
    (moved / "01.png").write_bytes(b"no image")
    client = connect(run, moved)
    assert client.get("thumbnails/0").status_code == 404
    assert client.get("thumbnails/1").status_code == 404
    assert client.get("images/1").status_code == 404
    assert client.get("thumbnails/2").status_code == 200


def test_a_run_without_its_images_shows_file_names(connect: Any, run: Path, photos: Path, tmp_path: Path) -> None:
    info = (run / "run.json").read_text()
    (run / "run.json").write_text(info.replace(str(photos), str(tmp_path / "gone")))
    RunFolder(run).seal(["run.json"])
    client = connect(run)
    state = client.json("state")
    assert not state["has_images"]
    assert "the images were not found" in state["note"]
    assert client.get("thumbnails/0").status_code == 404
    assert client.get("").status_code == 200


def test_a_run_on_features(connect: Any, fitted_features: Path, tmp_path: Path) -> None:
    client = connect(Path(shutil.copytree(fitted_features, tmp_path / "run")))
    state = client.json("state")
    assert (state["item"], state["has_images"], state["can_embed"]) == ("row", False, False)
    assert "folders" not in state["formats"]
    assert client.get("dates").status_code == 404
    assert client.get("thumbnails/0").status_code == 404
    assert client.json("similar", row=3, count=2)["rows"][0] == 3
    answer = client.post("similar", files={"image": b"any"})
    assert answer.status_code == 400
    assert client.edit("move", rows=[0], cluster=1)["history"]["can_undo"]


def test_the_map_is_computed_once_and_cached(reader: Client) -> None:
    deadline = time.monotonic() + 60
    while (answer := reader.get("map")).status_code == 202 and time.monotonic() < deadline:
        time.sleep(0.05)
    assert answer.status_code == 200
    assert len(answer.content) == 60 * 4
    (file,) = (reader.session.run.path / ".explorer").glob("map-*")
    assert file.read_bytes() == answer.content


def test_split_preview_gives_all_rows_and_changes_nothing(client: Client) -> None:
    parts = client.json("split-preview", cluster=0, parts=2)["parts"]
    assert sorted(row for part in parts for row in part) == client.session.snapshot.clustering.rows(0).tolist()
    assert not client.json("state")["history"]["can_undo"]
    state = client.edit("split", cluster=0, parts=parts[1:])
    assert len(state["clusters"]) == 4
    assert client.post("split-preview", json={"cluster": 0, "parts": 1000}).status_code == 400


@pytest.mark.parametrize("clusters", [2, 3, 5])
def test_levels_lead_to_the_number_of_clusters(client: Client, clusters: int) -> None:
    client.edit("rename", cluster=1, name="dogs")
    client.edit("exclude", rows=[0])
    edits = client.json("levels", clusters=clusters)["edits"]
    if clusters == 3:
        assert edits == []
        return
    state = client.edit("batch", edits=edits)
    assert sum(not cluster["excluded"] for cluster in state["clusters"]) == clusters
    if clusters > 3:
        assert state["names"][1] == "dogs"
    assert client.edit("undo")["names"][1] == "dogs"


def test_levels_beyond_the_number_of_images_are_refused(reader: Client) -> None:
    assert reader.post("levels", json={"clusters": 0}).status_code == 400
    assert reader.post("levels", json={"clusters": 61}).status_code == 400


def test_similar_images_by_row_and_by_file(reader: Client, photos: Path) -> None:
    answer = reader.json("similar", row=7, count=3)
    assert answer["rows"][0] == 7
    assert answer["similarities"][0] == 1.0
    upload = reader.post("similar", files={"image": (photos / "07.png").read_bytes()}, data={"count": "3"})
    assert upload.json() == answer
    broken = reader.post("similar", files={"image": b"no image"})
    assert broken.status_code == 400
    assert broken.json()["error"].startswith("The file cannot be read as an image")
    assert reader.post("similar", files={"other": b"x"}).status_code == 400


def test_duplicates_come_with_the_one_to_keep(reader: Client) -> None:
    answer = reader.json("duplicates?start=0&count=5")
    assert answer["total"] >= 1
    group = next(group for group in answer["groups"] if {0, 59} <= set(group["rows"]))
    assert group["best"] in group["rows"]
    assert set(group["width"]) == {16}
    assert reader.json("duplicates?start=1000&count=5")["groups"] == []
    assert reader.get("duplicates?start=-1").status_code == 400


def test_export_writes_the_edited_clusters(client: Client, run: Path) -> None:
    client.edit("rename", cluster=0, name="dogs")
    answer = client.json("export", format="folders", folder="sorted")
    assert answer["files"] == 60
    assert Path(answer["path"]) == run.parent / "sorted"
    assert (run.parent / "sorted" / "dogs").is_dir()
    again = client.post("export", json={"format": "folders", "folder": "sorted"})
    assert (again.status_code, "already exists" in again.json()["error"]) == (400, True)
    assert client.post("export", json={"format": "exe", "folder": "a"}).status_code == 400
    table = client.get("export/labels.csv")
    assert table.headers["Content-Disposition"] == 'attachment; filename="labels.csv"'
    assert ",dogs," in table.text
    assert client.json("export/labels.json")["images"][0]["path"] == "00.png"


def test_names_of_files_that_are_not_unicode(connect: Any, photos: Path, tmp_path: Path) -> None:
    from cgmcr2 import CgMCR2
    from cgmcr2.runs import fit_images

    from ..colours import QUICK

    folder = Path(shutil.copytree(photos, tmp_path / "photos"))
    name = os.fsdecode(b"\xff.png")
    try:
        (folder / "00.png").rename(folder / name)
    except OSError:
        pytest.skip("this file system only has Unicode names")
    fit_images(CgMCR2(3, settings=QUICK), folder, tmp_path / "run", encoder="colours")
    client = connect(tmp_path / "run")
    row = client.session.edits.fitted.ids.index(name)
    assert client.json("ids", rows=[row]) == [name]
    assert client.get(f"thumbnails/{row}").status_code == 200
    assert client.get("").status_code == 200


def test_large_images_are_limited(connect: Callable[..., Client], run: Path, photos: Path, tmp_path: Path) -> None:
    import io

    moved = Path(shutil.copytree(photos, tmp_path / "moved"))
    Image.new("RGB", (3000, 100)).save(moved / "05.png")
    client = connect(run, moved)
    assert Image.open(io.BytesIO(client.get("images/5").content)).size == (2048, 68)
    assert max(Image.open(io.BytesIO(client.get("thumbnails/5").content)).size) == 256
