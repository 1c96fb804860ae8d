"""The consensus of the most informative k-means partitions of smoothed features, which ``auto`` trains towards.

A single k-means depends on its initialisation and on the scale of the features. So k-means runs many times, on several
views of the features (``views.py``), each smoothed by random walks of several lengths over its neighbour graph. The
partitions that tell most about the neighbours of a row vote. No labels are used.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from cgmcr2._progress import progress_bar
from cgmcr2.graphs.walk import jaccard_walk, walk_features

from .kmeans import kmeans
from .partitions import Int64, entropy, match_clusters, neighbour_information


@dataclasses.dataclass(frozen=True)
class ConsensusConfig:
    """Constants of the consensus. None depends on the data set."""

    walk_steps: tuple[int, ...] = (2, 4, 8, 16)  # lengths of the random walk, from local to global
    components: int = 128  # leading principal components of a view to smooth
    min_starts: int = 6  # k-means runs per view and walk length
    max_starts: int = 36  # more runs on small data, where they cost little and results vary more
    start_cost: int = 2_000_000  # rows x clusters x runs up to which there are more than min_starts
    edges: int = 3  # nearest neighbours in each view that the partitions are compared on
    entropy_power: float = 0.5  # in the score of a partition; 0 splits large groups, 0.6 merges similar ones
    voters: int = 12  # partitions that vote; fewer vary more, more dilute the best


DEFAULT = ConsensusConfig()


def neighbourhood(n: int, k: int) -> int:
    """The neighbours of a row in the graphs: a third of the mean cluster size, from 3 to 10, so that few cross it.

    >>> neighbourhood(1000, 10), neighbourhood(1600, 100), neighbourhood(100, 100)
    (10, 5, 3)
    """
    return min(max(n // (3 * k), 3), 10, n - 1)


def walk_lengths(n: int, k: int, config: ConsensusConfig = DEFAULT) -> tuple[int, ...]:
    """The walks of at most half the mean cluster size, so that few leave their cluster; at least the shortest.

    >>> walk_lengths(1000, 10), walk_lengths(1600, 100), walk_lengths(50, 10)
    ((2, 4, 8, 16), (2, 4, 8), (2,))
    """
    shortest, *longer = sorted(config.walk_steps)
    return shortest, *(t for t in longer if 2 * t * k <= n)


class Consensus(NamedTuple):
    """A partition of n rows, and the number of the view that most of the voters partition."""

    labels: Int64  # (n,)
    view: int


def consensus_partition(
    views: Sequence[Tensor],
    neighbours: Int64,
    k: int,
    seed: int,
    *,
    config: ConsensusConfig = DEFAULT,
    progress: bool = False,
) -> Consensus:
    """The consensus of many k-means partitions of n rows into k clusters.

    Partitions are ranked by ``partition_score``. The clusters of the first few are matched one to one with those of the
    best, and each row takes the cluster that most of them assign it to.

    Args:
        views: views (n, p) of the features, rows of unit length.
        neighbours: (len(views), n, m) nearest rows in each view, nearest first, m = 2 * neighbourhood(n, k).
        k: number of clusters.
        seed: random seed.
        config: constants of the algorithm.
        progress: show a progress bar.
    """
    starts = int(np.clip(config.start_cost // (len(views[0]) * k), config.min_starts, config.max_starts))
    m, steps = neighbourhood(len(views[0]), k), walk_lengths(len(views[0]), k, config)
    generator = torch.Generator().manual_seed(seed)
    score = functools.partial(
        partition_score, neighbours=neighbours[:, :, : config.edges], k=k, entropy_power=config.entropy_power
    )
    partitions: list[tuple[float, Int64, int]] = []
    total = len(views) * len(steps) * starts
    with progress_bar(total, desc="Consensus", unit="k-means", enabled=progress) as bar:
        for view, X in enumerate(views):
            for Y in smoothed(X[:, : config.components], neighbours[view], m, steps):
                runs = kmeans(Y, k, starts, generator)[0].numpy()
                partitions += [(score(labels), labels, view) for labels in runs]
                bar.update(starts)
                partitions.sort(key=lambda partition: -partition[0])
                del partitions[config.voters :]
    voters = [labels for _, labels, _ in partitions]
    return Consensus(vote(voters, k), int(np.bincount([view for *_, view in partitions]).argmax()))


def partition_score(labels: Int64, neighbours: Int64, k: int, entropy_power: float = DEFAULT.entropy_power) -> float:
    """How much the clusters ``labels (n,)`` tell about ``neighbours (views, n, m)``: I / H^entropy_power.

    I is the mutual information between the clusters of neighbouring rows, summed over the views, and H the entropy of
    the sizes. I is at most H per view, so I alone favours equal sizes and splits large groups; the share I / H favours
    one large cluster.
    """
    information = sum(neighbour_information(labels, J, k) for J in neighbours)
    return float(information / max(entropy(labels), 1e-12) ** entropy_power)


def smoothed(X: Tensor, neighbours: Int64, m: int, steps: Sequence[int]) -> Iterator[Tensor]:
    """Yield ``X (n, p)`` after random walks of each number of ``steps`` to the m nearest ``neighbours``, as unit rows.

    The edges are weighted by the overlap of the rows' 2 m nearest neighbours.
    """
    walk = jaccard_walk(neighbours[:, : 2 * m], m)
    for Y in walk_features(walk, X.contiguous(), steps):
        yield F.normalize(Y, dim=1)


def vote(partitions: Sequence[Int64], k: int, *, max_iter: int = 3) -> Int64:
    """(n,) the most frequent cluster of each row, after matching the clusters of all partitions with the first's.

    A cluster of the first partition that is outvoted everywhere keeps its rows.

    >>> vote([np.array([0, 0, 1, 1]), np.array([1, 1, 1, 0]), np.array([1, 1, 0, 0])], 2)
    array([0, 0, 1, 1])
    """
    labels = partitions[0]
    for _ in range(max_iter):
        previous, votes = labels, np.zeros((len(labels), k), dtype=np.int16)
        for partition in partitions:
            votes[np.arange(len(labels)), match_clusters(partition, previous, k)] += 1
        labels = votes.argmax(1)
        if np.array_equal(labels, previous):
            break
    clusters = np.unique(partitions[0])
    for cluster in np.setdiff1d(clusters, labels):
        labels[partitions[0] == cluster] = cluster
    return labels if np.isin(clusters, labels).all() else partitions[0]
