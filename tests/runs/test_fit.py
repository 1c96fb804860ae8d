from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

from cgmcr2 import CgMCR2
from cgmcr2.runs import RunFolder, choose_clusters, fit_features
from cgmcr2.runs.wishes import cluster_names


def test_the_files_of_a_finished_run(run: RunFolder) -> None:
    names = {path.name for path in run.path.iterdir()}
    assert {"run.json", "labels.csv", "clusters.csv", "clusters.json", "embeddings.npy", "probabilities.npy"} < names
    assert {"model", "metrics.jsonl"} < names
    assert not {"checkpoint.safetensors", "precomputed.safetensors"} & names
    assert run.info.finished
    assert run.info.protocol == (
        "labels.csv: fitted on split 0 (60 rows), predicted split 0 (60 rows) with the cluster head, 1 seed"
    )
    assert 0 <= run.info.stability <= 1  # type: ignore[operator]
    assert len(run.clustering) == 60


def test_a_finished_run_is_not_repeated(run: RunFolder, features: Path, model: CgMCR2) -> None:
    before = {path: path.stat().st_mtime_ns for path in run.path.rglob("*")}
    result = fit_features(clone(model), features, run.path)
    assert result.model is None
    assert result.clustering == run.clustering
    assert before == {path: path.stat().st_mtime_ns for path in run.path.rglob("*")}


def test_another_request_is_refused(run: RunFolder, features: Path, model: CgMCR2, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"holds another run \(different parameters: n_clusters was 3, is 4\)"):
        fit_features(clone(model).set_params(n_clusters=4), features, run.path)
    with pytest.raises(ValueError, match="holds another run"):
        fit_features(clone(model), features, run.path, part="test")
    (tmp_path / "thesis.txt").write_text("not a run")
    with pytest.raises(ValueError, match="is not empty and is not a run folder; choose a new folder"):
        fit_features(clone(model), features, tmp_path)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"n_clusters": 61}, "n_clusters is 61"),
        ({"settings": {"gama": 1}}, "did you mean 'gamma'"),
        ({"preset": "best"}, "preset must be one of"),
    ],
)
def test_invalid_input_is_refused_before_anything_is_written(
    features: Path, model: CgMCR2, tmp_path: Path, change: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(ValueError, match=sentence):
        fit_features(clone(model).set_params(**change), features, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_non_finite_features_are_refused_before_anything_is_written(model: CgMCR2, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.full((9, 2), np.nan, dtype=np.float32))
    with pytest.raises(ValueError, match="NaN"):
        fit_features(clone(model), tmp_path / "x.npy", tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("n_clusters", [2, "auto"])
@pytest.mark.parametrize(
    ("rows", "sentence"), [(0, "The features have no rows"), (1, "One row cannot be clustered; give at least 2.")]
)
def test_too_few_rows_are_one_sentence(
    model: CgMCR2, tmp_path: Path, n_clusters: int | str, rows: int, sentence: str
) -> None:
    np.save(tmp_path / "x.npy", np.ones((rows, 4), dtype=np.float32))
    with pytest.raises(ValueError, match=sentence):
        fit_features(clone(model).set_params(n_clusters=n_clusters), tmp_path / "x.npy", tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_choose_clusters_writes_its_choice(features: Path, tmp_path: Path) -> None:
    choice = choose_clusters(features, tmp_path, most=6)
    assert choice.chosen == 3
    assert (tmp_path / "choice.json").is_file()
    with pytest.raises(FileNotFoundError, match="There is no file or folder 'nowhere'"):
        choose_clusters("nowhere")


def test_features_that_changed_in_place_are_another_run(model: CgMCR2, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    np.save(tmp_path / "x.npy", rng.standard_normal((30, 4)).astype(np.float32))
    fit_features(clone(model), tmp_path / "x.npy", tmp_path / "run")
    np.save(tmp_path / "x.npy", rng.standard_normal((30, 4)).astype(np.float32))
    with pytest.raises(ValueError, match="different features"):
        fit_features(clone(model), tmp_path / "x.npy", tmp_path / "run")


def test_the_same_model_repeats_a_run_with_names(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X = np.eye(4, dtype=np.float32)[np.arange(60) % 3] + 0.05 * rng.standard_normal((60, 4)).astype(np.float32)
    np.savez(tmp_path / "x.npz", features=X)
    np.savez(tmp_path / "words.npz", names=["a", "b", "z"], embeddings=np.eye(4)[[0, 1, 3]])
    model = CgMCR2(settings={"hidden_dim": 16})
    options: dict[str, Any] = {"names": ["a", "b"], "text": tmp_path / "words.npz"}
    assert fit_features(model, tmp_path / "x.npz", tmp_path / "run", **options).model is not None
    assert fit_features(model, tmp_path / "x.npz", tmp_path / "run", **options).model is None  # not refused


def test_default_names_differ_from_the_given_ones() -> None:
    assert cluster_names(["Cluster 2", "auto"], 3) == ["Cluster 2", "Cluster 1", "Cluster 2 (new)"]
