from __future__ import annotations

from typing import Any

import numpy as np
import torch

from cgmcr2.consensus.combine import combine
from cgmcr2.evaluation import clustering_accuracy


def test_lanczos_gives_the_same_partition_as_the_dense_solver(noisy_partitions: Any) -> None:
    partitions, _ = noisy_partitions
    dense = combine(partitions, 4, 0)
    assert clustering_accuracy(dense, combine(partitions, 4, 0, dense_size=5)) == 1


def test_the_consensus_is_better_than_its_partitions(noisy_partitions: Any) -> None:
    partitions, y = noisy_partitions
    best = max(clustering_accuracy(y, labels) for labels in partitions)
    assert clustering_accuracy(y, combine(partitions, 4, 0)) > best


def test_fewer_rows_than_clusters_in_all_partitions(noisy_partitions: Any) -> None:
    partitions, _ = noisy_partitions
    whole = combine(partitions, 4, 0)
    few = combine([labels[:20] for labels in partitions], 4, 0)
    assert clustering_accuracy(whole[:20], few) > 0.9


def test_weighted_rows_count_like_repeated_rows() -> None:
    rng = np.random.default_rng(3)
    y = rng.integers(4, size=200)
    partitions = [np.where(rng.random(200) < 0.3, rng.integers(4, size=200), y) for _ in range(6)]
    times = np.arange(200) % 3 + 1
    weighted = combine(partitions, 4, 0, torch.from_numpy(times).float())
    repeated = combine([labels.repeat(times) for labels in partitions], 4, 0)
    assert clustering_accuracy(weighted.repeat(times), repeated) > 0.99
