from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

from cgmcr2.consensus.ensemble import (
    DEFAULT,
    Consensus,
    ConsensusConfig,
    _Ensemble,
    consensus_partition,
    imbalance_converged,
    rarity_weights,
)
from cgmcr2.consensus.views import linear_views, view_neighbours
from cgmcr2.evaluation import clustering_accuracy
from cgmcr2.graphs.knn import top_similar

Array = np.ndarray[Any, Any]


def consensus(X: Array, k: int, config: ConsensusConfig = DEFAULT) -> Consensus:
    views = linear_views(X, X.shape[1], seed=0)
    neighbours = view_neighbours(X, views, 20, seed=0)
    return consensus_partition(*views.unit(torch.from_numpy(X)), neighbours, k, seed=0, config=config)


def test_separated_groups_are_found_reproducibly(groups: tuple[Array, Array]) -> None:
    X, y = groups
    labels = consensus(X, 4).labels
    assert clustering_accuracy(y, labels) > 0.97
    assert np.array_equal(labels, consensus(X, 4).labels)


@pytest.mark.parametrize("whitened", [True, False])
def test_only_the_whitened_view_is_used_if_only_it_shows_the_groups(
    groups: tuple[Array, Array], whitened: bool
) -> None:
    X, y = groups
    noise = torch.randn(X.shape, generator=torch.Generator().manual_seed(0))
    views = [torch.nn.functional.normalize(view, dim=1) for view in (noise, torch.from_numpy(X))]
    if not whitened:
        views.reverse()
    neighbours = np.stack([top_similar(view, 20, sort=True)[1].numpy() for view in views])
    result = consensus_partition(*views, neighbours, 4, seed=0)
    assert result.whitened == whitened
    assert clustering_accuracy(y, result.labels) > (0.97 if whitened else 0.9)
    few_rows = consensus_partition(*(view[:100] for view in views), neighbours[:, :100] % 100, 4, seed=0)
    assert not few_rows.whitened  # 25 rows per cluster are too few to judge


def test_trusted_partitions_exclude_outliers() -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=200)
    good = [np.where(rng.random(200) < 0.05, rng.integers(3, size=200), y) for _ in range(4)]
    random = rng.integers(3, size=200)
    ensemble = _Ensemble(3, 200, torch.Generator(), DEFAULT, lambda count: None)
    trusted = ensemble.trusted([good[0], random, random.copy(), *good[1:]])
    assert len(trusted) == 3
    assert all(any(partition is one for one in good) for partition in trusted)


def test_imbalance_must_grow_and_converge() -> None:
    even = np.repeat(np.arange(4), 50)
    skewed = np.repeat(np.arange(4), [110, 40, 30, 20])
    shifted = np.roll(skewed, 25)
    assert imbalance_converged([even, skewed, skewed], 4)
    assert not imbalance_converged([even, skewed], 4)  # one round is not enough
    assert not imbalance_converged([even, skewed, shifted], 4)
    assert imbalance_converged([even, skewed, shifted, shifted], 4)
    assert not imbalance_converged([skewed, even, even], 4)  # more equal than before
    assert not imbalance_converged([even, even, even], 4)


def test_rarity_weights_have_mean_one() -> None:
    weights = rarity_weights(np.repeat(np.arange(4), [110, 40, 30, 20]))
    assert weights.mean().item() == pytest.approx(1)
    assert weights[-1] / weights[0] == pytest.approx((110 / 20) ** 1.5)


def test_reweighting_finds_imbalanced_digits() -> None:
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(10)
    rows = np.concatenate([np.flatnonzero(y == c)[: int(180 * 10 ** (-i / 9))] for i, c in enumerate(order)])
    X, y = X[rows].astype(np.float32), y[rows]
    without, reweighted = (
        clustering_accuracy(y, consensus(X, 10, dataclasses.replace(DEFAULT, min_size_entropy=entropy)).labels)
        for entropy in (0.0, DEFAULT.min_size_entropy)
    )
    assert reweighted > without + 0.05
