from __future__ import annotations

from typing import Any

import numpy as np

from cgmcr2._arrays import unit_rows
from cgmcr2.consensus.reference import count_distinct, gaussian_rows, permuted_columns

Array = np.ndarray[Any, Any]


def test_gaussian_rows_have_the_mean_and_the_covariance() -> None:
    rng = np.random.default_rng(0)
    X = (rng.random((20_000, 4)) @ rng.standard_normal((4, 4))).astype(np.float32)
    noise = gaussian_rows(X, seed=0)
    np.testing.assert_allclose(noise.mean(0), unit_rows(X).mean(0), atol=0.02)
    np.testing.assert_allclose(np.cov(noise.T), np.cov(unit_rows(X).T), atol=0.01)


def test_gaussian_rows_of_fewer_rows_than_features_stay_in_their_span() -> None:
    X = np.random.default_rng(0).standard_normal((5, 20)).astype(np.float32)
    noise = gaussian_rows(X, seed=0)
    assert noise.shape == X.shape
    assert np.linalg.matrix_rank(np.vstack([unit_rows(X), noise]), tol=1e-4) == 5


def test_permuted_columns_keep_each_column_and_lose_the_groups(groups: tuple[Array, Array]) -> None:
    X, _ = groups
    permuted = permuted_columns(X, seed=0)
    np.testing.assert_array_equal(np.sort(permuted, axis=0), np.sort(unit_rows(X), axis=0))
    correlation = np.abs(np.corrcoef(permuted.T) - np.eye(12)).max()
    assert correlation < np.abs(np.corrcoef(X.T) - np.eye(12)).max() / 1.5


def test_distinct_directions_are_counted_up_to_the_limit() -> None:
    X = np.repeat(np.eye(6, dtype=np.float32), 3, axis=0)
    assert count_distinct(X, 99, 1e-3) == 6
    assert count_distinct(X, 4, 1e-3) == 4
    assert count_distinct(X + 1e-5 * np.random.default_rng(0).standard_normal(X.shape), 99, 1e-3) == 6
