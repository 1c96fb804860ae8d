from __future__ import annotations

import numpy as np
import pytest
import torch

from cgmcr2.graphs.walk import jaccard_walk, lazy_walk, walk_features


def test_edges_are_weighted_by_shared_neighbours() -> None:
    neighbours = np.array([[1, 2], [0, 2], [1, 0], [2, 1]])  # rows 0, 1, 2 are mutual neighbours; 3 is nobody's
    walk = jaccard_walk(neighbours, 2).toarray()
    assert walk.sum(1) == pytest.approx(1)
    assert walk[0, 1] == walk[0, 2] == pytest.approx(0.5)
    assert walk[2, 3] < walk[2, 0] / 2  # {2, 0, 1} and {3, 2, 1} share two of four; {0, 1, 2} and {2, 1, 0} all
    assert walk[0, 3] == walk[3, 3] == 0


def test_walk_features_are_powers_of_the_walk() -> None:
    neighbours = (np.arange(12)[:, None] + [1, 5]) % 12
    walk = lazy_walk(neighbours)
    X = torch.randn(12, 3, generator=torch.Generator().manual_seed(0))
    dense = torch.from_numpy(walk.toarray())
    for steps, smoothed in zip((1, 3), walk_features(walk, X, (1, 3)), strict=True):
        torch.testing.assert_close(smoothed, torch.linalg.matrix_power(dense, steps) @ X)
