from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from cgmcr2.clustering.io import save_clustering
from cgmcr2.runs import RunFolder, check_run, repair_run


@pytest.fixture
def copy(run: RunFolder, tmp_path: Path) -> RunFolder:
    shutil.copytree(run.path, tmp_path / "run")
    return RunFolder(tmp_path / "run")


def damage(path: Path) -> bytes:
    original = path.read_bytes()
    path.write_bytes(original[: len(original) // 2])
    return original


def test_an_intact_run_has_no_findings(run: RunFolder) -> None:
    assert check_run(run.path) == []


@pytest.mark.parametrize("name", ["labels.csv", "clusters.csv", "clusters.json", "embeddings.npy", "probabilities.npy"])
def test_labels_are_rebuilt_from_the_model_and_the_features(copy: RunFolder, name: str) -> None:
    original = damage(copy.path / name)
    (finding,) = check_run(copy.path)
    assert (finding.file, finding.repairable) == (name, True)
    assert repair_run(copy.path) == []
    assert (copy.path / name).read_bytes() == original


def test_names_survive_the_repair_of_the_labels(copy: RunFolder) -> None:
    named = copy.fitted.rename(1, "dogs")
    save_clustering(named, copy.path)
    damage(copy.labels)
    assert repair_run(copy.path) == []
    assert RunFolder(copy.path).clustering == named


@pytest.mark.parametrize("name", ["model/config.json", "model/model.safetensors", "run.json"])
def test_what_cannot_be_rebuilt_is_reported(copy: RunFolder, name: str) -> None:
    damage(copy.path / name)
    (finding,) = repair_run(copy.path)
    assert finding.file == name
    assert not finding.repairable
    assert "repeat the run" in finding.remedy


def test_damaged_edits_are_reported(copy: RunFolder) -> None:
    copy.edits.write_text("no JSON\n")
    (finding,) = check_run(copy.path)
    assert (finding.file, finding.repairable) == ("edits.jsonl", False)
    assert "is damaged; restore the file from a backup" in finding.problem


def test_missing_checksums_are_reported(copy: RunFolder) -> None:
    (copy.path / "checksums.json").unlink()
    (finding,) = check_run(copy.path)
    assert finding.file == "checksums.json"
    with pytest.raises(ValueError, match=r"has no checksums\.json, so its files cannot be verified"):
        copy.model()


def test_a_second_writer_is_refused(run: RunFolder, copy: RunFolder) -> None:
    with copy.lock(), pytest.raises(ValueError, match="Another process is writing to"), RunFolder(copy.path).lock():
        pass
    with copy.lock():
        pass  # released
