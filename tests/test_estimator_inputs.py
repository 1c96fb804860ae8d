"""Unusual input of ``CgMCR2.fit``: a correct result, or one sentence."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from sklearn.exceptions import ConvergenceWarning

from cgmcr2 import CgMCR2

Array = np.ndarray[Any, Any]
QUICK = {"warmup_epochs": 10, "finetune_epochs": 20}
Y = np.arange(60) % 3
X = np.eye(8)[Y] + 0.1 * np.random.default_rng(0).standard_normal((60, 8))


def fit(data: Any, k: int | str = 3) -> CgMCR2:
    return CgMCR2(k, settings=QUICK).fit(data)


@pytest.fixture(scope="module")
def expected() -> Array:
    return fit(X.astype(np.float32)).labels_


UNUSUAL = {
    "float32 1e37": (X * 1e37).astype(np.float32),
    "float32 1e-42": (X * 1e-42).astype(np.float32),
    "float64 1e300": X * 1e300,
    "float64 1e-300": X * 1e-300,
    "every row of another size": X * 10.0 ** np.random.default_rng(1).uniform(-250, 250, (60, 1)),
    "float16": X.astype(np.float16),
    "integers": (X * 1000).astype(np.int16),
    "large integers": (X * 1e18).astype(np.int64),
    "objects": (X * 1e200).astype(object),
    "lists": X.tolist(),
    "Fortran order": np.asfortranarray(X),
    "big-endian": X.astype(">f8"),
    "constant columns": np.hstack([X, np.full((60, 2), 5.0)]),
    "float64 tensor": torch.from_numpy(X * 1e200),
    "bfloat16 tensor": torch.from_numpy(X).bfloat16(),
    "sparse tensor": torch.from_numpy(X).to_sparse(),
}


@pytest.mark.parametrize("name", UNUSUAL)
def test_types_and_sizes_of_numbers_do_not_change_the_clusters(name: str, expected: Array) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = fit(UNUSUAL[name])
        assert np.array_equal(model.labels_, expected)
        assert np.array_equal(model.predict(UNUSUAL[name]), expected)


@pytest.mark.parametrize("factor", [1e300, 1e-300])
def test_files_of_extreme_numbers_are_read_in_blocks(factor: float, expected: Array, tmp_path: Path) -> None:
    np.save(tmp_path / "X.npy", X * factor)
    assert np.array_equal(fit(tmp_path / "X.npy").labels_, expected)


def test_booleans_are_clustered() -> None:
    assert len(set(fit(X > 0.5).labels_[:3])) == 3


def test_zero_rows_are_finite() -> None:
    data = X.copy()
    data[:5] = 0
    probabilities = fit(data).predict_proba(data)
    assert np.isfinite(probabilities).all()
    assert len(set(probabilities[:5].argmax(1))) == 1


@pytest.mark.parametrize("data", [np.ones((20, 4)), np.zeros((20, 4))])
def test_equal_rows_get_one_cluster_and_a_warning(data: Array) -> None:
    with pytest.warns(ConvergenceWarning, match="Only 1 of 3 clusters"):
        assert len(set(fit(data).labels_)) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = fit(data, "auto")
    assert (model.n_clusters_, set(model.labels_)) == (1, {0})
    assert model.spectral_labels(data[:1]).tolist() == [0]
    with pytest.raises(ValueError, match="n_clusters was given or only one cluster was found"):
        model.predict(data, level=1)


def test_duplicate_rows_get_the_same_cluster() -> None:
    labels = fit(np.repeat(X[:6], 5, axis=0)).labels_.reshape(6, 5)
    assert (labels == labels[:, :1]).all()


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("n", [2, 3, 4, 7])
@pytest.mark.parametrize("k", ["auto", 1, 2, "n"])
def test_few_rows_are_clustered(n: int, k: int | str) -> None:
    model = fit(X[:n], n if k == "n" else k)
    assert model.labels_.shape == (n,)
    assert np.isfinite(model.predict_proba(X)).all()


@pytest.mark.parametrize("k", ["auto", 1, 3])
def test_one_row_is_refused_in_one_sentence(k: int | str, tmp_path: Path) -> None:
    np.save(tmp_path / "X.npy", X[:1])
    for data in (X[:1], tmp_path / "X.npy"):
        with pytest.raises(ValueError, match=r"^One row cannot be clustered \(n_samples=1\); give at least 2\.$"):
            fit(data, k)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (X.astype(complex), "Complex data not supported; give real features"),
        (torch.from_numpy(X).cfloat(), "Complex data not supported; give real features"),
        (sp.csr_array(X), "Sparse data was passed"),
        (np.array([["a", "b"]] * 9), "could not convert string to float"),
        (np.where(X > 1, np.nan, X), "contains NaN"),
        (np.where(X > 1, np.inf, X), "contains infinity"),
        (X[:0], "0 sample"),
        (X[:, :0], "0 feature"),
        (X[:2], "n_clusters is 3, but there are only n_samples=2"),
    ],
)
def test_unusable_input_is_refused(data: Any, message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        fit(data)
