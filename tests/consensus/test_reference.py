from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cgmcr2.consensus.reference import count_distinct, permuted_columns, rotated_rows

Array = np.ndarray[Any, Any]


@pytest.mark.parametrize("shape", [(200, 4), (5, 20)], ids=["many rows", "few rows"])
def test_rotated_rows_have_the_mean_and_the_covariance(shape: tuple[int, int]) -> None:
    rng = np.random.default_rng(0)
    X = (rng.random(shape) @ rng.standard_normal((shape[1], shape[1]))).astype(np.float32)
    rotated = rotated_rows(X, rng)
    assert np.abs(rotated - X).max() > 0.1
    np.testing.assert_allclose(rotated.mean(0), X.mean(0), atol=1e-4)
    np.testing.assert_allclose(np.cov(rotated.T), np.cov(X.T), atol=1e-3)


def test_rotated_rows_lose_the_groups(groups: tuple[Array, Array]) -> None:
    def kurtosis(X: Array) -> float:
        leading = np.linalg.svd(X - X.mean(0), full_matrices=False)[0][:, 0]
        return float((leading**4).mean() / (leading**2).mean() ** 2)

    X, _ = groups
    assert kurtosis(X) < 2  # two poles
    assert kurtosis(rotated_rows(X, np.random.default_rng(0))) > 2.5  # Gaussian: 3


def test_permuted_columns_keep_each_column_and_lose_the_groups(groups: tuple[Array, Array]) -> None:
    X, _ = groups
    permuted = permuted_columns(X, np.random.default_rng(0))
    np.testing.assert_array_equal(np.sort(permuted, axis=0), np.sort(X, axis=0))
    correlation = np.abs(np.corrcoef(permuted.T) - np.eye(12)).max()
    assert correlation < np.abs(np.corrcoef(X.T) - np.eye(12)).max() / 1.5


def test_distinct_directions_are_counted_up_to_the_limit() -> None:
    X = np.repeat(np.eye(6, dtype=np.float32), 3, axis=0)
    assert count_distinct(X, 99, 1e-3) == 6
    assert count_distinct(X, 4, 1e-3) == 4
    assert count_distinct(X + 1e-5 * np.random.default_rng(0).standard_normal(X.shape), 99, 1e-3) == 6
