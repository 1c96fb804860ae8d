"""HDBSCAN: the minimum cluster size is chosen by the number of clusters."""

from __future__ import annotations

import numpy as np

from cgmcr2.baselines.hdbscan import HDBSCAN


def nested_groups() -> tuple[np.ndarray, np.ndarray]:
    """Two directions, each with four groups of 20 rows; the group 0 to 7 of each row."""
    rng = np.random.default_rng(0)
    y = np.arange(160) % 8
    X = 4 * np.eye(12)[y // 4] + np.eye(12)[2 + y] + 0.02 * rng.standard_normal((160, 12))
    return X.astype(np.float32), y


def test_the_result_closest_to_k_is_kept() -> None:
    X, y = nested_groups()
    fine = HDBSCAN(8).fit(X)
    assert len(set(zip(fine.labels_, y, strict=True))) == 8
    coarse = HDBSCAN(2).fit(X)
    assert coarse.min_cluster_size_ > fine.min_cluster_size_
    assert len(set(zip(coarse.labels_, y // 4, strict=True))) == 2


def test_a_given_size_is_used() -> None:
    model = HDBSCAN(2, min_cluster_size=5).fit(nested_groups()[0])
    assert model.min_cluster_size_ == 5
    assert len(set(model.labels_)) == 8  # HDBSCAN finds the number of clusters itself
