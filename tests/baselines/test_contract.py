"""What every method must hold, whatever it computes: one test over the whole registry."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from sklearn.base import clone
from sklearn.metrics import pairwise_distances_argmin

from cgmcr2.baselines import METHODS, make
from cgmcr2.baselines.base import Baseline
from cgmcr2.evaluation import clustering_accuracy

# Settings that make a deep method quick; each line is there because the default would take longer than a second.
QUICK: dict[str, dict[str, Any]] = {
    "nmce": {"hidden_dim": 32, "embedding_dim": 8, "epochs": (4, 15, 15), "min_steps": 0, "batch_size": 32, "lr": 5e-3},
    "mlc": {"hidden_dim": 32, "embedding_dim": 8, "epochs": 3, "min_steps": 0, "batch_size": 32},
    "cpp": {"hidden_dim": 32, "embedding_dim": 8, "epochs": 3, "min_steps": 0, "batch_size": 32},
    "neuncut": {"hidden_dim": 32, "epochs": 30, "min_steps": 0, "batch_size": 64, "lr": 5e-3},
    "scan": {"n_heads": 3, "epochs": 5, "min_steps": 60, "self_label_epochs": 3},
    "temi": {"hidden_dim": 32, "bottleneck_dim": 16, "epochs": 5, "min_steps": 100, "lr": 5e-3},
    "tac": {"hidden_dim": 32, "min_steps": 30},
    "turtle": {"iterations": 60},
    "pro-dsc": {"hidden_dim": 64, "embedding_dim": 16, "epochs": 5, "min_steps": 40},
}

Array = npt.NDArray[Any]


def build(name: str, k: int = 3, seed: int = 0) -> Baseline:
    return make(name, k, seed, **QUICK.get(name, {}))


def blobs(n: int = 90, D: int = 12, k: int = 3, seed: int = 0) -> tuple[Array, Array]:
    """k orthogonal directions with noise, n rows of width D."""
    random = np.random.default_rng(seed)
    y = random.permutation(np.arange(n) % k)
    return (np.eye(D)[y] + 0.1 * random.standard_normal((n, D))).astype(np.float32), y


@pytest.fixture(scope="module", params=list(METHODS))
def fitted(request: pytest.FixtureRequest) -> Baseline:
    return build(request.param).fit(blobs()[0])


def test_labels_have_the_shape_and_range_of_the_clusters(fitted: Baseline) -> None:
    assert fitted.labels_.shape == (90,)
    assert fitted.labels_.dtype == np.int64
    assert set(fitted.labels_) <= {0, 1, 2}
    assert fitted.n_features_in_ == 12
    assert fitted.reference
    assert METHODS[fitted.name] is type(fitted)


def test_clear_clusters_are_found(fitted: Baseline) -> None:
    # without augmentations NMCE joins two of the three on some seeds: docs/baselines.md
    assert clustering_accuracy(blobs()[1], fitted.labels_) >= (0.6 if fitted.name == "nmce" else 0.95)


def test_the_same_seed_gives_the_same_labels(fitted: Baseline) -> None:
    again: Baseline = clone(fitted)
    np.random.default_rng().standard_normal(3)
    assert (again.fit_predict(blobs()[0]) == fitted.labels_).all()


def test_new_rows_are_predicted_or_refused(fitted: Baseline) -> None:
    X = blobs(50, seed=1)[0]
    if not fitted.can_predict:
        with pytest.raises(ValueError, match="cannot predict rows that it was not fitted on"):
            fitted.predict(X)
        return
    labels = fitted.predict(X)
    assert labels.dtype == np.int64
    nearest = pairwise_distances_argmin(X, blobs()[0])
    assert np.mean(labels == fitted.labels_[nearest]) >= 0.9
    assert (fitted.predict(X) == labels).all()
    assert (fitted.predict(X[7:8]) == labels[7]).all()  # a row's cluster does not depend on the others
    with pytest.raises(ValueError, match="features"):
        fitted.predict(X[:, :5])


def test_a_saved_model_predicts_the_same(fitted: Baseline, tmp_path: Path) -> None:
    fitted.save(tmp_path / "model")
    assert sorted(path.name for path in (tmp_path / "model").iterdir()) == ["config.json", "model.safetensors"]
    loaded = type(fitted).load(tmp_path / "model")
    assert loaded.get_params() == fitted.get_params()
    assert (loaded.labels_ == fitted.labels_).all()
    if fitted.can_predict:
        X = blobs(50, seed=2)[0]
        assert (loaded.predict(X) == fitted.predict(X)).all()


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize(("n", "k"), [(2, 1), (2, 2), (3, 2), (7, 7), (33, 4), (130, 2)])
def test_any_number_of_rows(name: str, n: int, k: int) -> None:
    labels = build(name, k).fit_predict(blobs(n, D=5, k=k if k <= 5 else 5)[0])
    assert labels.shape == (n,)
    assert labels.min() >= 0
    assert labels.max() < k


@pytest.mark.parametrize("name", METHODS)
def test_odd_rows_do_no_harm(name: str) -> None:
    X = blobs(40)[0]
    X[3] = 0
    X[5:9] = X[4]
    X = np.concatenate([X, np.zeros((40, 1), dtype=np.float32)], axis=1)
    assert build(name).fit_predict(X).shape == (40,)


@pytest.mark.parametrize("name", METHODS)
def test_input_from_disk_and_of_other_types_gives_the_same(name: str, tmp_path: Path) -> None:
    X = blobs(40)[0].astype(np.float16)
    np.save(tmp_path / "x.npy", X)
    want = build(name).fit_predict(X.astype(np.float32))
    assert (build(name).fit_predict(np.load(tmp_path / "x.npy", mmap_mode="r")) == want).all()
    assert (build(name).fit_predict(tmp_path / "x.npy") == want).all()


@pytest.mark.parametrize("name", METHODS)
def test_bad_input_is_one_clear_sentence(name: str) -> None:
    X = blobs(20)[0]
    holes = X.copy()
    holes[[2, 5]] = np.nan
    for bad, k, words in (
        (holes, 3, "2 of 20 rows .* contain NaN or infinity \\(rows 2, 5\\)"),
        (X, 21, "n_clusters is 21, but there are only n_samples=20 rows"),
        (X, 0, "n_clusters must be a whole number"),
        (X, 2.5, "n_clusters must be a whole number"),
        (X[0], 3, "2D"),
        (X[:0], 3, "sample"),
    ):
        with pytest.raises(ValueError, match=words):
            build(name, k).fit(bad)  # type: ignore[arg-type]


def test_a_name_or_setting_that_is_not_there_is_said_with_those_that_are() -> None:
    with pytest.raises(ValueError, match=re.escape("There is no method named 'kmeans'; there are k-means, ")):
        make("kmeans")
    with pytest.raises(ValueError, match="k-means has no setting named 'epochs'; it has"):
        make("k-means", epochs=3)


def test_a_model_of_another_method_is_not_loaded(tmp_path: Path) -> None:
    make("k-means", 3).fit(blobs()[0]).save(tmp_path)
    with pytest.raises(ValueError, match="holds k-means in format 1, but spherical-k-means"):
        METHODS["spherical-k-means"].load(tmp_path)
    with pytest.raises(FileNotFoundError, match="is not a saved model"):
        METHODS["k-means"].load(tmp_path / "no")
