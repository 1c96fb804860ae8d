from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits, make_blobs
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from cgmcr2 import CgMCR2
from cgmcr2.consensus.choose_k import choose_k
from cgmcr2.evaluation import score_labels
from cgmcr2.inference import TrainedModel
from cgmcr2.training import PRESETS

QUICK: dict[str, Any] = {
    "hidden_dim": 32,
    "n_heads": 1,
    "warmup_epochs": 20,
    "finetune_epochs": 20,
    "batch_size": 256,
    "lr": 1e-2,
    "consensus_weight": 0.0,
}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks([CgMCR2(n_clusters=3, settings=QUICK)])  # no check is skipped
def test_scikit_learns_contract(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.fixture(scope="module")
def digits() -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    X, y = load_digits(return_X_y=True)
    return X.astype(np.float32)[:600], y[:600]


@pytest.fixture(scope="module")
def fitted(digits: Any) -> CgMCR2:
    return CgMCR2(n_clusters=10, settings=QUICK).fit(digits[0])


def test_digits_with_a_small_network(digits: Any, fitted: CgMCR2) -> None:
    assert score_labels(digits[1], fitted.labels_).acc > 0.5
    assert score_labels(digits[1], fitted.spectral_labels(digits[0])).acc > 0.5
    assert len(np.unique(fitted.labels_)) == 10


def test_rows_of_another_kind_are_outliers(digits: Any, fitted: CgMCR2, tmp_path: Path) -> None:
    inverted = digits[0].max() - digits[0][:50]
    scores = fitted.outlier_scores(np.concatenate([digits[0], inverted]))
    assert scores.shape == (650,)
    assert scores[600:].min() > 0.99 > np.median(scores[:600])
    fitted.save(tmp_path)
    np.testing.assert_array_equal(CgMCR2.load(tmp_path).outlier_scores(inverted), scores[600:])


@pytest.mark.parametrize("preset", PRESETS)
def test_every_preset_fits_saves_and_predicts(digits: Any, preset: str, tmp_path: Path) -> None:
    X = digits[0][:100]
    settings = {"hidden_dim": 16, "warmup_epochs": 1, "finetune_epochs": 2, "s": 5}
    model = CgMCR2(5, preset=preset, settings=settings).fit(X)
    model.save(tmp_path)
    assert np.array_equal(CgMCR2.load(tmp_path).predict(X), model.labels_)
    assert model.spectral_labels(X).shape == (100,)


def test_the_largest_seed(digits: Any) -> None:
    X = digits[0][:100]
    model = CgMCR2(5, random_state=2**32 - 1, settings={**QUICK, "warmup_epochs": 1, "finetune_epochs": 1}).fit(X)
    assert model.spectral_labels(X).shape == (100,)


def test_save_load_predict_equal(digits: Any, fitted: CgMCR2, tmp_path: Path) -> None:
    X = digits[0]
    fitted.save(tmp_path / "model")
    loaded = CgMCR2.load(tmp_path / "model")
    assert np.array_equal(loaded.predict(X), fitted.labels_)
    assert np.array_equal(loaded.predict_proba(X), fitted.predict_proba(X))
    assert np.array_equal(loaded.transform(X), fitted.transform(X))
    assert loaded.score(X) == fitted.score(X)
    assert loaded.get_params()["n_clusters"] == 10
    assert np.array_equal(loaded.labels_, fitted.labels_)
    assert loaded.seed_ == fitted.seed_
    json.loads((tmp_path / "model" / "config.json").read_text())


def test_prediction_does_not_depend_on_batch_or_order(digits: Any, fitted: CgMCR2) -> None:
    X = digits[0]
    ones = np.concatenate([fitted.predict(X[i : i + 1]) for i in range(len(X))])
    assert np.array_equal(ones, fitted.labels_)
    assert np.array_equal(fitted.predict(X[::-1])[::-1], fitted.labels_)
    assert np.array_equal(np.concatenate([fitted.predict(X[:299]), fitted.predict(X[299:])]), fitted.labels_)


def test_same_seed_same_labels(digits: Any, fitted: CgMCR2) -> None:
    assert np.array_equal(clone(fitted).fit_predict(digits[0]), fitted.labels_)


def test_every_kind_of_input_gives_the_same(digits: Any, fitted: CgMCR2, tmp_path: Path) -> None:
    X = digits[0]
    np.save(tmp_path / "x.npy", X)
    kinds = (
        X.astype(np.float64),
        torch.from_numpy(X),
        X.tolist(),
        tmp_path / "x.npy",
        np.load(tmp_path / "x.npy", mmap_mode="r"),
    )
    for kind in kinds:
        assert np.array_equal(fitted.predict(kind), fitted.labels_)
    assert np.array_equal(clone(fitted).fit_predict(tmp_path / "x.npy"), fitted.labels_)


def test_memberships_and_embedding(digits: Any, fitted: CgMCR2) -> None:
    Pi, Z = fitted.predict_proba(digits[0]), fitted.transform(digits[0])
    np.testing.assert_allclose(Pi.sum(1), 1, rtol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(Z, axis=1), 1, rtol=1e-5)
    assert np.array_equal(Pi.argmax(1), fitted.labels_)
    assert fitted.get_feature_names_out()[0] == "cgmcr2_0"


def test_in_a_pipeline(digits: Any) -> None:
    pipeline = make_pipeline(StandardScaler(), CgMCR2(n_clusters=10, settings=QUICK))
    labels = pipeline.fit_predict(digits[0])
    assert np.array_equal(pipeline.predict(digits[0]), labels)


def test_score_falls_when_clusters_are_wrong(digits: Any, fitted: CgMCR2, monkeypatch: pytest.MonkeyPatch) -> None:
    correct, (Z, logits) = fitted.score(digits[0]), fitted._model.forward(digits[0])
    shuffled = Z, logits[torch.randperm(len(logits), generator=torch.Generator().manual_seed(0))]
    monkeypatch.setattr(TrainedModel, "forward", lambda self, source: shuffled)
    assert 0 < fitted.score(digits[0]) < correct / 2


def test_the_papers_settings_by_name() -> None:
    model = CgMCR2.for_dataset("cifar100", random_state=3)
    assert (model.n_clusters, model.settings["gamma"], model.preset, model.random_state) == (100, 1400, "paper", 3)
    settings = model.resolve_settings(50_000, 768)
    assert (settings.hidden_dim, settings.s, settings.penalty) == (4096, 20, "squared")


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({"n_clusters": 11}, "n_clusters is 11, but there are only n_samples=10 rows"),
        ({"n_clusters": 0}, "n_clusters must be an integer of at least 1, or 'auto', but is 0"),
        ({"n_clusters": 2.5}, "but is 2.5"),
        ({"preset": "best"}, "preset must be one of"),
        ({"random_state": -1}, "random_state must be"),
        ({"settings": {"gamma": float("nan")}}, "gamma must be a number of at least 0"),
        ({"settings": {"gama": 5}}, "did you mean 'gamma'"),
    ],
)
def test_bad_parameters_are_one_sentence(parameters: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        CgMCR2(**{"n_clusters": 2, **parameters}).fit(np.random.default_rng(0).standard_normal((10, 4)))


def test_bad_features_are_one_sentence(fitted: CgMCR2, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="65 features"):
        fitted.predict(np.ones((2, 65)))
    np.save(tmp_path / "wide.npy", np.ones((2, 65)))
    with pytest.raises(ValueError, match="X has 65 features, but CgMCR2 was fitted on 64"):
        fitted.predict(tmp_path / "wide.npy")
    np.save(tmp_path / "nan.npy", np.full((2, 64), np.nan))
    with pytest.raises(ValueError, match=r"rows 0, 1"):
        fitted.predict(tmp_path / "nan.npy")
    np.save(tmp_path / "flat.npy", np.ones(64))
    with pytest.raises(ValueError, match=r"\(64,\)"):
        CgMCR2(2).fit(tmp_path / "flat.npy")


def test_the_default_finds_the_digits() -> None:
    """The headline of the package: the default on scikit-learn's digits, without tuning."""
    X, y = load_digits(return_X_y=True)
    acc = score_labels(y, CgMCR2(n_clusters=10).fit(X).labels_).acc
    kmeans = score_labels(y, KMeans(10, n_init=10, random_state=0).fit_predict(X)).acc
    assert acc > 0.90
    assert acc > kmeans


def test_fit_source_gives_what_fit_and_predict_give(digits: Any, fitted: CgMCR2) -> None:
    inference = clone(fitted).fit_source(digits[0])
    assert np.array_equal(inference.labels, fitted.labels_)
    np.testing.assert_allclose(inference.probabilities, fitted.predict_proba(digits[0]), atol=1e-6)
    np.testing.assert_allclose(inference.embedding, fitted.transform(digits[0]), atol=1e-6)


def test_confidence_and_margin_do_not_need_the_probabilities(
    digits: Any, fitted: CgMCR2, monkeypatch: pytest.MonkeyPatch
) -> None:
    complete = fitted.infer(digits[0])
    monkeypatch.setattr("cgmcr2.inference.BLOCK_BYTES", 0)  # blocks of 256 rows
    bounded = fitted._model.infer(digits[0], max_memberships=10 * len(digits[0]) - 1)
    assert bounded.probabilities is None
    assert np.array_equal(bounded.labels, complete.labels)
    second, best = np.sort(complete.probabilities, axis=1)[:, -2:].T
    np.testing.assert_allclose(bounded.confidence, best, atol=1e-5)
    np.testing.assert_allclose(bounded.margin, best - second, atol=1e-5)


def test_groups_of_one_row_change_nothing(digits: Any, fitted: CgMCR2) -> None:
    inference = clone(fitted).fit_source(digits[0], groups=np.arange(len(digits[0])))
    assert np.array_equal(inference.labels, fitted.labels_)
    np.testing.assert_allclose(inference.probabilities, fitted.predict_proba(digits[0]), atol=1e-6)


@pytest.fixture(scope="module")
def copies() -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Five clusters of 16 rows, each row copied 12 times with a little noise; the rows and their groups."""
    rng = np.random.default_rng(0)
    X = np.repeat(make_blobs(80, n_features=32, centers=5, random_state=0)[0], 12, axis=0)
    order = rng.permutation(len(X))
    X = (X + rng.normal(scale=0.02, size=X.shape))[order].astype(np.float32)
    _, first, inverse = np.unique(order // 12, return_index=True, return_inverse=True)
    return X, first[inverse]


def test_each_group_counts_once(copies: Any) -> None:
    X, groups = copies
    model = CgMCR2("auto", settings=QUICK)
    inference = model.fit_source(X, groups=groups)
    labels = inference.labels
    assert model.n_clusters_ == 5
    assert {len(array) for array in inference} == {960}
    assert np.array_equal(labels, labels[groups])
    distinct = clone(model).fit(X[np.unique(groups)])
    assert np.array_equal(labels, distinct.predict(X))
    assert model.calibration_ == distinct.calibration_
    assert model.levels_ == distinct.levels_
    assert choose_k(X).chosen > 20  # the copies are taken for clusters


def test_published_presets_train_on_all_rows(copies: Any) -> None:
    X, groups = copies
    settings = {**QUICK, "warmup_epochs": 1, "finetune_epochs": 1}
    model = CgMCR2(5, preset="paper", settings=settings)
    assert np.array_equal(model.fit_source(X, groups=groups).labels, clone(model).fit(X).labels_)


def test_all_rows_count_if_there_are_fewer_groups_than_clusters(copies: Any) -> None:
    X, groups = copies
    rows = np.flatnonzero(np.isin(groups, np.unique(groups)[:10]))[:100]
    few = np.searchsorted(rows, groups[rows])
    model = CgMCR2(20, settings=QUICK)
    assert np.array_equal(model.fit_source(X[rows], groups=few).labels, clone(model).fit(X[rows]).labels_)


def test_settings_are_cloned_and_set(digits: Any) -> None:
    model = CgMCR2(3, settings={"gamma": 5.0})
    assert clone(model).settings == {"gamma": 5.0}
    model.set_params(settings={"lr": 0.01})
    assert model.resolve_settings(100, 8).lr == 0.01


def test_a_choice_of_k_is_reused_when_a_fit_is_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    X, _ = make_blobs(120, n_features=8, centers=4, random_state=0)
    first = CgMCR2("auto", settings=QUICK).fit(X, folder=tmp_path)
    monkeypatch.setattr("cgmcr2.estimator.choose_k", None)  # not called again
    second = CgMCR2("auto", settings=QUICK).fit(X, folder=tmp_path)
    assert second.choice_ == first.choice_
    assert np.array_equal(second.labels_, first.labels_)


def test_a_folder_does_not_reuse_the_network_of_other_data(tmp_path: Path) -> None:
    X, _ = make_blobs(120, n_features=8, centers=3, random_state=0)
    other, _ = make_blobs(120, n_features=8, centers=3, random_state=1)
    CgMCR2(3, settings=QUICK).fit(X, folder=tmp_path)
    again = CgMCR2(3, settings=QUICK).fit(other, folder=tmp_path)
    assert np.array_equal(again.labels_, CgMCR2(3, settings=QUICK).fit(other).labels_)
    assert not list(tmp_path.glob("*.safetensors"))  # checkpoints of finished runs are deleted


def test_a_cluster_with_nearly_all_rows_is_no_collapse() -> None:
    rng = np.random.default_rng(0)
    centres = 3 * rng.normal(size=(20, 64))
    y = np.where(rng.random(2000) < 0.9, 0, rng.integers(20, size=2000))
    X = (centres[y] + rng.normal(size=(2000, 64))).astype(np.float32)
    assert score_labels(y, CgMCR2(20).fit(X).labels_).acc > 0.98
