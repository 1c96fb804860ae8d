from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from sklearn.metrics import pairwise_distances, silhouette_score

from cgmcr2.consensus.criteria import partition_criteria, principal_distances, silhouette
from cgmcr2.consensus.views import smoothed_views

Array = np.ndarray[Any, Any]


@pytest.mark.parametrize("k", [2, 5, 30])
def test_silhouette_is_scikit_learns(k: int) -> None:
    rng = np.random.default_rng(k)
    X, labels = rng.standard_normal((60, 3)).astype(np.float32), rng.integers(k, size=60)
    labels[:2] = 0, 1
    labels[labels == k - 1] = 0  # an empty cluster
    labels[2] = k - 1  # a cluster of one row
    assert silhouette(pairwise_distances(X), labels, k) == pytest.approx(silhouette_score(X, labels), abs=1e-5)


def test_one_cluster_has_no_silhouette() -> None:
    assert silhouette(np.ones((3, 3), np.float32), np.zeros(3, np.int64), 4) == 0


def test_distances_are_those_of_unit_rows_if_all_components_are_kept() -> None:
    X = np.random.default_rng(0).standard_normal((20, 4)).astype(np.float32)
    U = X / np.linalg.norm(X, axis=1, keepdims=True)
    np.testing.assert_allclose(principal_distances(X, 32, 0), pairwise_distances(U), atol=1e-3)


def test_information_and_silhouette_are_largest_at_the_number_of_groups(groups: tuple[Array, Array]) -> None:
    X, y = groups
    neighbours, views = smoothed_views(X, (4, 8), 0)
    rows = np.arange(0, len(X), 2)
    grid = [2, 3, 4, 6, 9]
    information, silhouettes = partition_criteria(
        views, neighbours, rows, principal_distances(X[rows], 32, 0), grid, torch.Generator().manual_seed(0)
    )
    k = len(np.unique(y))
    assert grid[information.argmax()] == k
    assert grid[silhouettes.argmax()] == k
