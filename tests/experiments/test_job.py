from __future__ import annotations

import dataclasses
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest

from cgmcr2.baselines import make
from cgmcr2.experiments.job import Job, attempt_job, complete_settings, run_job, silhouette
from cgmcr2.pretrain import loop
from cgmcr2.pretrain.estimators import CLUSTERERS


@pytest.mark.parametrize(
    ("part", "protocol", "scored"),
    [
        ("test", "fitted on split 0 (48 rows), predicted split 1 (12 rows)", 12),
        ("train", "fitted and labelled split 0 (48 rows)", 48),
        ("all", "fitted and labelled all rows (60 rows)", 60),
    ],
)
def test_protocols(split_file: Path, tmp_path: Path, part: str, protocol: str, scored: int) -> None:
    result = run_job(Job(str(split_file), "k-means", 0, 3, {}, "labels", str(tmp_path), name="x", part=part))
    assert result["protocol"] == protocol
    assert np.load(tmp_path / "labels" / "x.npy").shape == (scored,)


def test_fit_all_scores_the_labels_of_the_test_rows(
    split_file: Path, tmp_path: Path, three_groups: tuple[np.ndarray, np.ndarray]
) -> None:
    job = Job(str(split_file), "k-means", 0, 3, {}, "labels", str(tmp_path), name="x", fit_all=True)
    assert run_job(job)["protocol"] == "fitted on all rows (60 rows), scored on split 1 (12 rows)"
    fitted = make("k-means", 3, 0).fit(three_groups[0]).labels_
    assert (np.load(tmp_path / "labels" / "x.npy") == fitted[::5]).all()


def test_the_number_of_rows_can_be_limited(split_file: Path, tmp_path: Path) -> None:
    job = Job(str(split_file), "k-means", 0, 3, {}, "labels", str(tmp_path), max_rows=10)
    assert run_job(job)["protocol"] == "fitted on split 0 (10 rows), predicted split 1 (10 rows)"


def test_settings_include_the_presets_defaults(split_file: Path, tmp_path: Path) -> None:
    job = Job(str(split_file), "auto", 0, 3, {"gamma": 7}, "labels", str(tmp_path))
    settings = complete_settings(job, 60, 6)
    assert (settings["gamma"], settings["batch_size"], settings["preset"]) == (7, 60, "auto")


def test_timing_needs_a_full_batch(split_file: Path, tmp_path: Path) -> None:
    job = Job(str(split_file), "paper", 0, 3, {}, "labels", str(tmp_path), timing_batch=100)
    assert attempt_job(job)["error"].endswith("has 60 rows, but timing needs a batch of 100.")


def test_silhouette_of_one_cluster_is_undefined(three_groups: tuple[np.ndarray, np.ndarray]) -> None:
    X, y = three_groups
    assert silhouette(X, np.zeros(len(X), dtype=np.int64)) is None
    score = silhouette(X, y)
    assert score is not None
    assert score > 0.9


@pytest.mark.filterwarnings("ignore:.*too few to train", "ignore:Only . of . clusters")
def test_an_interrupted_method_on_images_is_resumed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    images = np.random.default_rng(0).integers(0, 256, (40, 8, 8, 3), np.uint8)
    np.savez(tmp_path / "images.npz", images=images)
    settings = {"width": 8, "epochs": 1, "batch_size": 16}
    output = tmp_path / "out"
    job = Job(str(tmp_path / "images.npz"), "cc", 0, 2, settings, "labels", str(output))
    with monkeypatch.context() as patch:
        patch.setattr(CLUSTERERS["cc"], "_fitted_labels", Mock(side_effect=OSError("killed")))
        assert attempt_job(job) == {"error": "killed"}
    assert list((output / ".checkpoints").glob("cc-0-*/stage-0/checkpoint.safetensors"))
    other = dataclasses.replace(job, settings={**settings, "lr": 1e-4})
    assert "error" not in attempt_job(other)  # checkpoints of other settings are no obstacle
    monkeypatch.setattr(loop, "update", None)  # no step is left
    result = attempt_job(job)
    assert "error" not in result
    assert not any((output / ".checkpoints").iterdir())
