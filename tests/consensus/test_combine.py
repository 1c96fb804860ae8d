from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from scipy.sparse.linalg import ArpackError

from cgmcr2.consensus.combine import combine
from cgmcr2.evaluation import clustering_accuracy
from cgmcr2.graphs import spectral


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


@pytest.mark.parametrize("dense_size", [5, 1_000])
def test_equal_partitions_are_returned_although_their_eigenvalues_are_equal(dense_size: int) -> None:
    y = np.random.default_rng(0).integers(20, size=1_500)
    labels = combine([y, (y + 1) % 20, (7 * y) % 20] * 20, 20, 0, dense_size=dense_size)
    assert clustering_accuracy(y, labels) == 1


def test_a_failing_lanczos_does_not_end_the_consensus(noisy_partitions: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*arguments: Any, **options: Any) -> Any:
        raise ArpackError(3)

    partitions, _ = noisy_partitions
    expected = combine(partitions, 4, 0)
    monkeypatch.setattr(spectral, "eigsh", failing)
    assert clustering_accuracy(expected, combine(partitions, 4, 0, dense_size=5)) == 1
