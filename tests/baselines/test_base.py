"""The interface that all baselines share, tested on every method, and the registry of methods."""

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
from cgmcr2.baselines.base import Baseline, CentroidBaseline, missing_package
from cgmcr2.evaluation.metrics import clustering_accuracy

# Parameters with which a fit takes a fraction of a second.
QUICK: dict[str, dict[str, Any]] = {
    "nmce": {"hidden_dim": 32, "embedding_dim": 8, "max_steps": 30, "batch_size": 32, "lr": 5e-3},
    "mlc": {"hidden_dim": 32, "embedding_dim": 8, "warmup_steps": 3, "max_steps": 9, "batch_size": 32},
    "cpp": {"hidden_dim": 32, "embedding_dim": 8, "warmup_steps": 3, "max_steps": 9, "batch_size": 32},
    "neuncut": {"hidden_dim": 32, "max_steps": 60, "batch_size": 64, "lr": 5e-3},
    "scan": {"n_heads": 3, "max_steps": 60, "self_label_steps": 3},
    "temi": {"hidden_dim": 32, "bottleneck_dim": 16, "max_steps": 100, "warmup_steps": 20, "lr": 5e-3},
    "tac": {"hidden_dim": 32, "max_steps": 30},
    "turtle": {"max_steps": 60},
    "pro-dsc": {"hidden_dim": 64, "embedding_dim": 16, "warmup_steps": 16, "max_steps": 24},
}

# Parameters for tests that do not need a good clustering.
BRIEF: dict[str, dict[str, Any]] = {
    "nmce": {"max_steps": 2},
    "mlc": {"warmup_steps": 1, "max_steps": 2},
    "cpp": {"warmup_steps": 1, "max_steps": 2},
    "neuncut": {"max_steps": 4},
    "scan": {"max_steps": 2, "self_label_steps": 1},
    "temi": {"max_steps": 2},
    "tac": {"max_steps": 2},
    "turtle": {"max_steps": 3},
    "pro-dsc": {"warmup_steps": 2, "max_steps": 3},
}

FREE_K = ("hdbscan", "evoc")  # these choose the number of clusters themselves
SMALLEST = {"evoc": 33, "umap-k-means": 33}  # their packages fail on fewer rows

Array = npt.NDArray[Any]

pytestmark = pytest.mark.filterwarnings("ignore:TAC has no text embeddings")


def build(name: str, k: int = 3, *, brief: bool = False) -> Baseline:
    if METHODS[name].requires:
        pytest.importorskip(METHODS[name].requires, reason="optional dependency, pip install 'cgmcr2[compare]'")
    return make(name, k, **{**QUICK.get(name, {}), **(BRIEF.get(name, {}) if brief else {})})


def blobs(n: int = 90, D: int = 12, k: int = 3, seed: int = 0) -> tuple[Array, Array]:
    """n rows of width D around k orthogonal directions, and their labels."""
    random = np.random.default_rng(seed)
    y = random.permutation(np.arange(n) % k)
    return (np.eye(D)[y] + 0.1 * random.standard_normal((n, D))).astype(np.float32), y


@pytest.fixture(scope="module", params=list(METHODS))
def fitted(request: pytest.FixtureRequest) -> Baseline:
    return build(request.param).fit(blobs()[0])


def test_attributes_after_fit(fitted: Baseline) -> None:
    assert fitted.labels_.shape == (90,)
    assert fitted.labels_.dtype == np.int64
    assert set(fitted.labels_) <= {0, 1, 2}
    assert fitted.n_features_in_ == 12
    assert fitted.reference
    assert METHODS[fitted.name] is type(fitted)


def test_separates_clear_clusters(fitted: Baseline) -> None:
    # without augmentations, NMCE merges two of the three clusters for some seeds
    assert clustering_accuracy(blobs()[1], fitted.labels_) >= (0.6 if fitted.name == "nmce" else 0.95)


def test_clone_reproduces_the_labels(fitted: Baseline) -> None:
    copy: Baseline = clone(fitted)
    assert not hasattr(copy, "labels_")
    np.random.default_rng().standard_normal(3)
    assert (copy.fit_predict(blobs()[0]) == fitted.labels_).all()


def test_predict(fitted: Baseline) -> None:
    X = blobs(50, seed=1)[0]
    labels = fitted.predict(X)
    assert labels.dtype == np.int64
    nearest = pairwise_distances_argmin(X, blobs()[0])
    assert np.mean(labels == fitted.labels_[nearest]) >= 0.9
    assert (fitted.predict(X) == labels).all()
    assert (fitted.predict(X[7:8]) == labels[7]).all()  # independent of the other rows
    with pytest.raises(ValueError, match="features"):
        fitted.predict(X[:, :5])


def test_save_and_load(fitted: Baseline, tmp_path: Path) -> None:
    fitted.save(tmp_path / "model")
    assert sorted(path.name for path in (tmp_path / "model").iterdir()) == ["config.json", "model.safetensors"]
    loaded = type(fitted).load(tmp_path / "model")
    assert loaded.get_params() == fitted.get_params()
    assert (loaded.labels_ == fitted.labels_).all()
    X = blobs(50, seed=2)[0]
    assert (loaded.predict(X) == fitted.predict(X)).all()


@pytest.mark.parametrize("name", METHODS)
def test_scikit_learn_parameters(name: str) -> None:
    method = METHODS[name]
    model = method(7, random_state=3)  # only n_clusters is positional
    assert repr(model).replace("\n", "").startswith(f"{method.__name__}(n_clusters=7, random_state=3")
    with pytest.raises(TypeError):
        method(7, 3)  # type: ignore[misc]
    copy = clone(model)
    assert copy.get_params() == model.get_params()
    assert copy != model  # compared by identity, like all estimators
    assert len({copy, model}) == 2
    assert model.set_params(n_clusters=4, verbose=True).n_clusters == 4
    assert (copy.n_clusters, copy.verbose) == (7, False)
    with pytest.raises(ValueError, match="Invalid parameter 'unknown'"):
        model.set_params(unknown=1)


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize(("n", "k"), [(2, 1), (2, 2), (3, 2), (7, 7), (33, 4), (130, 2)])
def test_any_number_of_rows(name: str, n: int, k: int) -> None:
    if n < SMALLEST.get(name, 0):
        pytest.skip(f"{name} needs at least {SMALLEST[name]} rows")
    labels = build(name, k, brief=True).fit_predict(blobs(n, D=5, k=min(k, 5))[0])
    assert labels.shape == (n,)
    assert labels.min() >= 0
    assert labels.max() < (n if name in FREE_K else k)


@pytest.mark.parametrize("name", METHODS)
def test_zero_duplicate_and_constant_values(name: str) -> None:
    X = blobs(40)[0]
    X[3] = 0
    X[5:9] = X[4]
    X = np.concatenate([X, np.zeros((40, 1), dtype=np.float32)], axis=1)
    assert build(name).fit_predict(X).shape == (40,)


@pytest.mark.parametrize("name", METHODS)
def test_array_memory_map_and_file_give_the_same_labels(name: str, tmp_path: Path) -> None:
    X = blobs(40)[0].astype(np.float16)
    np.save(tmp_path / "x.npy", X)
    expected = build(name, brief=True).fit_predict(X.astype(np.float32))
    assert (build(name, brief=True).fit_predict(np.load(tmp_path / "x.npy", mmap_mode="r")) == expected).all()
    assert (build(name, brief=True).fit_predict(tmp_path / "x.npy") == expected).all()


@pytest.mark.parametrize("name", METHODS)
def test_invalid_input(name: str) -> None:
    X = blobs(20)[0]
    not_finite = X.copy()
    not_finite[[2, 5]] = np.nan
    for invalid, k, message in (
        (not_finite, 3, "2 of 20 rows .* contain NaN or infinity \\(rows 2, 5\\)"),
        (X, 21, "n_clusters is 21, but there are only n_samples=20 rows"),
        (X, 0, "n_clusters must be an integer"),
        (X, 2.5, "n_clusters must be an integer"),
        (X[0], 3, "2D"),
        (X[:0], 3, "sample"),
    ):
        with pytest.raises(ValueError, match=message):
            build(name, k).fit(invalid)  # type: ignore[arg-type]


def test_unknown_method_or_parameter() -> None:
    with pytest.raises(ValueError, match=re.escape("There is no method named 'kmeans'; choose one of k-means, ")):
        make("kmeans")
    with pytest.raises(ValueError, match="k-means has no parameter named 'epochs'; it has"):
        make("k-means", epochs=3)


def test_load_refuses_other_models(tmp_path: Path) -> None:
    make("k-means", 3).fit(blobs()[0]).save(tmp_path)
    with pytest.raises(ValueError, match="contains a k-means model in format 1, but spherical-k-means reads"):
        METHODS["spherical-k-means"].load(tmp_path)
    with pytest.raises(FileNotFoundError, match="is not a saved model"):
        METHODS["k-means"].load(tmp_path / "missing")


class Halves(CentroidBaseline):
    """Two clusters by the sign of the first column; rows with a small first column are noise."""

    name = "halves"

    def _fit_rows(self, U: Array, seed: int) -> Array:
        return np.where(np.abs(U[:, 0]) < 0.5, -1, np.where(U[:, 0] > 0, 4, 2))


def test_noise_and_new_rows_join_the_nearest_centroid() -> None:
    X = np.array([[3.0, 0.3], [-2, 0.2], [5, 0], [0.1, 1], [-0.1, -1]], dtype=np.float32)
    model = Halves(2).fit(X)
    assert model.labels_.tolist() == [1, 0, 1, 1, 0]  # the last two rows are noise
    assert model.noise_ == pytest.approx(0.4)
    assert model.predict([[1.0, -9], [-1, 9]]).tolist() == [1, 0]


def test_rows_that_are_all_noise_form_one_cluster() -> None:
    model = Halves(2).fit(np.array([[0.1, 1.0], [0.2, 1]], dtype=np.float32))
    assert model.labels_.tolist() == [0, 0]
    assert model.noise_ == 1


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(METHODS["evoc"], "requires", "package_that_does_not_exist")
    reason = "needs the package package_that_does_not_exist; install it with: pip install 'cgmcr2[compare]'"
    assert missing_package(METHODS["evoc"]) == reason
    assert missing_package(METHODS["k-means"]) == ""
    with pytest.raises(ImportError, match=re.escape(reason)):
        make("evoc", 3).fit(blobs()[0])
