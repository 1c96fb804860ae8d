from __future__ import annotations

import json
import os
import shutil
import warnings
from pathlib import Path

import numpy as np
import pytest

from cgmcr2 import Clustering
from cgmcr2.clustering.edits import Edit, base_state, describe, flatten, load_history
from cgmcr2.runs import Edits, RunFolder


@pytest.fixture
def folder(run: RunFolder, tmp_path: Path) -> Path:
    return Path(shutil.copytree(run.path, tmp_path / "run"))


def test_edits_are_replayed_and_the_fitted_files_unchanged(folder: Path) -> None:
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    with Edits(folder) as edits:
        edits.rename(0, "dogs")
        edits.move(edits.fitted.rows(1)[:3], "dogs")
        edits.new([edits.fitted.ids[row] for row in edits.fitted.rows(2)[:2]], "cats")
        edits.exclude([0])
        edits.lock([1])
        edits.merge([1, 2])
        edited = edits.clustering
    assert Clustering.load(folder) == RunFolder(folder).clustering == edited
    assert RunFolder(folder, with_edits=False).clustering == Clustering.load(folder, edits=False)
    assert edited.names[0] == "dogs"
    assert edited.labels[0] == edited.excluded
    assert edited.locked.tolist() == [row == 1 for row in range(60)]
    assert all(path.read_bytes() == content for path, content in before.items())


def test_undo_redo_and_back(folder: Path) -> None:
    with Edits(folder) as edits:
        states = [edits.clustering, edits.rename(0, "a"), edits.merge([0, 1]), edits.new([5])]
        assert edits.undo() == states[2]
        assert edits.undo() == states[1]
        assert edits.redo() == states[2]
        renamed = edits.rename(0, "b")
        with pytest.raises(ValueError, match="no edit to redo"):
            edits.redo()
        assert edits.back(3) == states[3]
        assert edits.undo() == states[2]
        assert edits.back(7) == renamed
        assert edits.back(0) == states[0]
        with pytest.raises(ValueError, match="no edit to undo"):
            edits.undo()
        with pytest.raises(ValueError, match=r"The log has lines 1 \.\.\. 11; 12 is none of them"):
            edits.back(12)
        state = edits.state
    with Edits(folder) as edits:
        assert edits.state == state
        assert edits.clustering == states[0]


def test_a_refused_edit_is_not_logged(folder: Path) -> None:
    with Edits(folder) as edits:
        edits.lock([3])
        for call, message in (
            (lambda: edits.move([3, 4], 0), "1 of the 2 images is locked"),
            (lambda: edits.rename(0, " "), "name of a cluster is empty"),
            (lambda: edits.rename(0, "Cluster 1"), "Two clusters are called"),
            (lambda: edits.rename(0, os.fsdecode(b"caf\xe9")), "is not valid Unicode"),
            (lambda: edits.merge([0, 7]), "There is no cluster 7"),
            (lambda: edits.move(["no.jpg"], 0), "The run has no image 'no.jpg'"),
            (lambda: edits.split(0, [edits.clustering.rows(0)]), "leave some in the cluster"),
        ):
            with pytest.raises(ValueError, match=message):
                call()
        assert len(edits.log) == 1
    assert len((folder / "edits.jsonl").read_text().splitlines()) == 1


def test_split_by_number_of_parts(folder: Path) -> None:
    with Edits(folder) as edits:
        merged = edits.merge([0, 1])
        parts = edits.preview_split(0)
        assert edits.clustering == merged
        edits.split(0)
        assert sorted(edits.clustering.rows(3).tolist()) == sorted(parts[0])
    separated = {frozenset(edits.clustering.rows(cluster).tolist()) for cluster in (0, 3)}
    assert separated == {frozenset(edits.fitted.rows(cluster).tolist()) for cluster in (0, 1)}


def test_a_torn_last_line_is_dropped(folder: Path) -> None:
    with Edits(folder) as edits:
        renamed = edits.rename(0, "dogs")
        edits.merge([0, 1])
    log = folder / "edits.jsonl"
    first, second = log.read_bytes().splitlines(keepends=True)
    for length in range(len(second)):
        log.write_bytes(first + second[:length])
        assert Clustering.load(folder) == renamed
    with Edits(folder) as edits:
        assert edits.clustering == renamed
        merged = edits.merge([1, 2])
    assert Clustering.load(folder) == merged


@pytest.mark.filterwarnings("ignore:The edits in .* have no effect")
def test_edits_of_an_earlier_fit_are_ignored_with_a_warning(folder: Path) -> None:
    with Edits(folder) as edits:
        edits.rename(0, "dogs")
        edits.rename(1, "cats")
    log = folder / "edits.jsonl"
    log.write_text(log.read_text().replace(edits.log[0].state, "0" * 16))
    with pytest.warns(UserWarning, match="have no effect, because a refit or a repair has changed"):
        Clustering.load(folder)
    with Edits(folder) as edits:
        assert edits.clustering == edits.fitted
        renamed = edits.rename(2, "birds")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert Clustering.load(folder) == renamed
    assert len(log.read_text().splitlines()) == 3


@pytest.mark.filterwarnings("ignore:The edits in .* have no effect")
def test_returning_to_an_earlier_fit_starts_without_edits(folder: Path) -> None:
    with Edits(folder) as edits:
        edits.new([0], "dogs")
    other = Edit("new", {"rows": [0], "name": "cats"}, "", base_state(edits.fitted.with_names(["a", "b", "c"])))
    with (folder / "edits.jsonl").open("a") as file:
        file.write(other.line() + "\n")  # of another fit
    with Edits(folder) as edits:
        assert edits.clustering == edits.fitted
        edited = edits.new([1], "birds")
    assert Clustering.load(folder) == edited


def test_rows_given_twice_count_once(folder: Path) -> None:
    with Edits(folder) as edits:
        edits.exclude([3, 3, 4])
        assert edits.log[0].arguments == {"rows": [3, 4]}
        with pytest.raises(ValueError, match="Rows must be integers, but got bool"):
            edits.move(np.arange(60) < 3, 0)


def test_a_damaged_log_is_refused(folder: Path) -> None:
    with Edits(folder) as edits:
        edits.rename(0, "dogs")
        edits.rename(1, "cats")
        edits.rename(2, "birds")
    log = folder / "edits.jsonl"
    lines = log.read_text().splitlines(keepends=True)
    log.write_text(lines[0] + lines[2])
    with pytest.raises(ValueError, match=r"Line 2 of .* does not follow line 1"):
        Clustering.load(folder)
    log.write_text(json.dumps({**json.loads(lines[0]), "verb": "__init__"}) + "\n")
    with pytest.raises(ValueError, match=r"Line 1 of .* is damaged"):
        Clustering.load(folder)


def test_a_full_disk_leaves_no_part_of_an_edit(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Edits(folder) as edits:
        renamed = edits.rename(0, "dogs")
        with monkeypatch.context() as patch:

            def fail(descriptor: int) -> None:
                raise OSError(28, "No space left on device")

            patch.setattr("os.fsync", fail)
            with pytest.raises(OSError, match="No space left"):
                edits.merge([0, 1])
        assert edits.clustering == Clustering.load(folder) == renamed
        merged = edits.merge([1, 2])
    assert Clustering.load(folder) == merged


def test_a_second_writer_is_refused(folder: Path) -> None:
    with Edits(folder), pytest.raises(ValueError, match="Another process is writing to"), Edits(folder):
        pass


def test_reading_needs_neither_the_lock_nor_a_writable_folder(folder: Path) -> None:
    with Edits(folder) as writer:
        renamed = writer.rename(0, "dogs")
        before = sorted(folder.iterdir())
        with Edits(folder, read_only=True) as edits:
            assert edits.clustering == renamed
            assert len(edits.log) == 1
            assert edits.preview_split(0)
            with pytest.raises(ValueError, match="opened to be read only"):
                edits.undo()
        assert sorted(folder.iterdir()) == before
    fitted = shutil.copytree(folder, folder.parent / "never-edited", ignore=shutil.ignore_patterns("edits.jsonl"))
    with Edits(fitted, read_only=True) as edits:
        assert edits.log == []
    assert not (fitted / "edits.jsonl").exists()


def test_the_labels_of_a_finished_run_are_not_overwritten(folder: Path, tmp_path: Path) -> None:
    clustering = Clustering.load(folder)
    with pytest.raises(ValueError, match=r"its fitted labels are kept; edit it with cgmcr2\.Edits"):
        clustering.save(folder)
    edited = clustering.exclude([1]).lock([2])
    edited.save(tmp_path / "copy")
    assert Clustering.load(tmp_path / "copy") == edited


def test_probabilities_follow_the_edits(folder: Path) -> None:
    clustering = Clustering.load(folder)
    for edited in (clustering.split(0, [clustering.rows(0)[:4]]), clustering.move([0], 2), clustering.exclude([7])):
        assert edited.probabilities is not None
        np.testing.assert_allclose(edited.probabilities.sum(1), 1, atol=1e-5)
        assert np.array_equal(edited.probabilities.argmax(1), edited.labels)
    assert clustering.move([0], 2).confidence[0] == 1


def test_a_batch_is_one_line_and_one_undo(folder: Path) -> None:
    with Edits(folder) as edits:
        fitted = edits.clustering
        rows = fitted.rows(0)[:2]
        changed = edits.batch(
            [
                ("new", {"rows": [fitted.ids[row] for row in rows], "name": "dogs"}),
                ("move", {"rows": fitted.rows(1)[:1], "cluster": "dogs"}),
                ("lock", {"rows": list(rows)}),  # NumPy integers
            ]
        )
        assert changed == fitted.new(rows, "dogs").move(fitted.rows(1)[:1], 3).lock(rows)
        assert len(edits.log) == 1
        assert [verb for verb, _ in flatten(edits.history.done)] == ["new", "move", "lock"]
        text = describe(edits.log[0])
        assert text == "make a new cluster of 2 images, called 'dogs'; move 1 image to cluster dogs; lock 2 images"
        assert edits.undo() == fitted
        assert flatten(edits.history.done) == []
        assert edits.redo() == changed
    assert Clustering.load(folder) == changed


def test_a_batch_is_applied_completely_or_not_at_all(folder: Path) -> None:
    with Edits(folder) as edits:
        for batch, message in (
            ([("rename", {"cluster": 0, "name": "dogs"}), ("rename", {"cluster": 9, "name": "x"})], "no cluster 9"),
            ([("batch", {"edits": []})], "cannot hold another batch"),
            ([("__init__", {})], "There is no verb '__init__'"),
            ([("move", {"rows": [0]})], "arguments of move are not valid: missing a required argument: 'cluster'"),
            ([], "at least one edit"),
        ):
            with pytest.raises(ValueError, match=message):
                edits.batch(batch)  # type: ignore[arg-type]
        assert edits.clustering == edits.fitted
    assert (folder / "edits.jsonl").read_bytes() == b""


def test_rejected_images_are_replayed(folder: Path) -> None:
    with Edits(folder) as edits:
        rows = edits.fitted.rows(1)[:2]
        rejected = edits.reject([edits.fitted.ids[row] for row in rows], [1])
        assert (rejected.labels[rows] != 1).all()
        assert edits.log[0].arguments == {"rows": rows.tolist(), "clusters": [1]}
        assert edits.undo() == edits.fitted
        assert edits.redo() == rejected
    assert Clustering.load(folder) == rejected


def test_a_refinement_is_replayed(folder: Path) -> None:
    with Edits(folder) as edits:
        edits.lock(edits.fitted.rows(2))
        rows = edits.fitted.rows(0)[:2]
        refined = edits.refine(rows, [1, 2], [0.123456, 1], [0.1, 1], model="refined-1")
        assert refined.labels[rows].tolist() == [1, 2]
        assert refined.confidence[rows[0]] == np.float32(0.1235)
        verb, arguments = flatten(edits.history.done)[-1]
        assert (verb, arguments["model"], arguments["confidence"]) == ("refine", "refined-1", [0.1235, 1.0])
        assert describe(edits.log[-1]) == "refine 2 images"
        with pytest.raises(ValueError, match="1 of the 1 images is locked"):
            edits.refine(edits.fitted.rows(2)[:1], [0])
        assert edits.undo() == edits.fitted.lock(edits.fitted.rows(2))
        assert edits.redo() == refined
    assert Clustering.load(folder) == refined
    assert load_history(folder, Clustering.load(folder, edits=False)) == edits.history
