from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

from cgmcr2.consensus.ensemble import DEFAULT, Consensus, ConsensusConfig, consensus_partition, partition_score, vote
from cgmcr2.consensus.partitions import neighbour_information
from cgmcr2.consensus.views import linear_views, view_neighbours
from cgmcr2.evaluation import clustering_accuracy
from cgmcr2.graphs.knn import top_similar

Array = np.ndarray[Any, Any]


def consensus(X: Array, k: int, config: ConsensusConfig = DEFAULT, seed: int = 0) -> Consensus:
    views = linear_views(X, X.shape[1], seed=seed)
    neighbours = view_neighbours(X, [views], 20, seed=seed)
    return consensus_partition(views.unit(torch.from_numpy(X)), neighbours, k, seed=seed, config=config)


def test_separated_groups_are_found_reproducibly(groups: tuple[Array, Array]) -> None:
    X, y = groups
    labels = consensus(X, 4).labels
    assert clustering_accuracy(y, labels) > 0.97
    assert np.array_equal(labels, consensus(X, 4).labels)


@pytest.mark.parametrize("informative", [0, 1])
def test_partitions_of_the_informative_view_vote(groups: tuple[Array, Array], informative: int) -> None:
    X, y = groups
    noise = torch.randn(X.shape, generator=torch.Generator().manual_seed(0))
    views = [torch.nn.functional.normalize(view, dim=1) for view in (noise, torch.from_numpy(X))]
    if informative == 0:
        views.reverse()
    neighbours = np.stack([top_similar(view, 20, sort=True)[1].numpy() for view in views])
    result = consensus_partition(views, neighbours, 4, seed=0)
    assert result.view == informative
    assert clustering_accuracy(y, result.labels) > 0.97


def test_a_large_group_is_not_split_for_equal_sizes() -> None:
    true = np.repeat([0, 1, 2], [800, 100, 100])
    split = np.repeat([0, 1, 2, 2], [400, 400, 100, 100])  # halves of the large group; the small ones together
    rng = np.random.default_rng(0)
    start, size = np.repeat([0, 800, 900], [800, 100, 100]), np.repeat([800, 100, 100], [800, 100, 100])
    near = np.arange(1000)[:, None] + rng.integers(-120, 121, size=(1000, 3))  # a sixth of the edges cross the halves
    J = start[:, None] + (near - start[:, None]) % size[:, None]
    assert neighbour_information(split, J, 3) > neighbour_information(true, J, 3)
    assert partition_score(split, J[None], 3) < partition_score(true, J[None], 3)


def test_votes_are_more_accurate_than_the_voters() -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(4, size=500)
    voters = [
        rng.permutation(4)[np.where(rng.random(500) < 0.3, rng.integers(4, size=500), y)]  # clusters renumbered
        for _ in range(9)
    ]
    assert clustering_accuracy(y, vote(voters, 4)) > 0.97 > max(clustering_accuracy(y, labels) for labels in voters)


def test_every_cluster_keeps_rows() -> None:
    voters = [np.array([0, 0, 0, 1, 2]), np.array([0, 0, 0, 0, 2]), np.array([0, 0, 0, 0, 2])]
    assert vote(voters, 3).tolist() == [0, 0, 0, 1, 2]


def test_voters_with_fewer_clusters_than_asked_for_still_vote() -> None:
    rng = np.random.default_rng(0)
    truth = np.arange(400) % 4
    voters = [np.where(rng.random(400) < 0.3, rng.integers(4, size=400), truth) for _ in range(9)]
    assert np.array_equal(vote(voters, 5), vote(voters, 4))
    assert (vote(voters, 5) == truth).mean() > 0.98


def test_one_voter_decides() -> None:
    labels = np.random.default_rng(0).integers(3, size=50)
    assert np.array_equal(vote([labels], 3), labels)


def test_the_consensus_finds_the_digits_with_every_seed() -> None:
    X, y = load_digits(return_X_y=True)
    X = X.astype(np.float32)
    accuracies = [clustering_accuracy(y, consensus(X, 10, seed=seed).labels) for seed in range(3)]
    assert min(accuracies) > 0.9


@pytest.mark.parametrize(("n", "k"), [(2, 1), (2, 2), (3, 2), (5, 5), (12, 3)])
def test_few_rows(n: int, k: int) -> None:
    X = np.random.default_rng(0).normal(size=(n, 4)).astype(np.float32)
    labels = consensus(X, k).labels
    assert labels.shape == (n,)
    assert labels.min() >= 0
    assert labels.max() < k
