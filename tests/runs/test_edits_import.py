"""Import of labels as one edit."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from cgmcr2 import Clustering
from cgmcr2.clustering.export import export
from cgmcr2.runs import Edits, RunFolder


@pytest.fixture
def folder(run: RunFolder, tmp_path: Path) -> Path:
    return Path(shutil.copytree(run.path, tmp_path / "run"))


def test_an_import_is_one_edit(folder: Path) -> None:
    with Edits(folder) as edits:
        first, second, third = edits.fitted.rows(0)[:3].tolist()
        labels: dict[str, int | str] = {
            edits.fitted.ids[first]: "dogs",
            edits.fitted.ids[second]: 1,
            edits.fitted.ids[third]: "Cluster 0",
            "missing.jpg": "dogs",
        }
        assert edits.preview_import(labels).unknown == ["missing.jpg"]
        assert edits.log == []
        assert edits.import_labels(labels).moves == {("Cluster 0", "dogs"): 1, ("Cluster 0", "Cluster 1"): 1}
        changed = edits.clustering
        assert changed.labels[[first, second, third]].tolist() == [3, 1, 0]
        assert changed.locked.sum() == 3
        assert len(edits.log) == 1
        assert edits.import_labels(labels).edits == []  # again: nothing to change
        assert len(edits.log) == 1
        assert edits.undo() == edits.fitted
        assert edits.redo() == changed
    assert Clustering.load(folder) == changed


def test_an_unchanged_export_writes_no_edit(folder: Path, tmp_path: Path) -> None:
    with Edits(folder) as edits:
        edits.exclude([0])
        edits.merge([1, 2], "both")
        export(edits.clustering, tmp_path / "clusters.csv", "csv")
        result = edits.import_labels(tmp_path / "clusters.csv")
        assert (result.edits, result.agreeing) == ([], 59)
        assert len(edits.log) == 2
