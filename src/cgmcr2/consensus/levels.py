"""A nested tree of clusters from coarse to fine that passes through a fitted partition.

Data has levels: vehicles, cars, vans. So the clusters of a partition are divided into many small leaves, by k-means in
the embedding of the trained network, which separates well within a cluster. The leaves are then merged pair by pair:
first within each cluster, until the partition is restored, then across clusters, until one is left. The pair is Ward's
(smallest increase of the within-cluster sum of squares) in the smoothed views of the features: training pushes clusters
apart, so the embedding does not tell which of them are similar.

Clusters keep their numbers across levels: a merge keeps the number of the larger part, and a split gives the smaller
part a new one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch

from cgmcr2.model.levels import Levels

from .ensemble import smoothed
from .kmeans import kmeans
from .partitions import Float64, Int64
from .views import space_views, unit_views, view_neighbours

Float32 = npt.NDArray[np.float32]


@dataclasses.dataclass(frozen=True)
class LevelsConfig:
    """Constants of the tree."""

    rows: int = 8_000  # sample size
    max_leaves: int = 300  # clusters of the finest level
    min_rows_per_leaf: int = 5  # on average; bounds the leaves on small data
    neighbours: int = 10  # of each row in the graphs that smooth the views, at most a third of the rows
    walk_steps: int = 8  # length of the random walk over them
    components: int = 128  # leading principal components of a view to smooth
    starts: int = 5  # k-means runs per cluster
    digits: int = 4  # decimals of the stored centroids


DEFAULT = LevelsConfig()


@torch.no_grad()
def build_levels(
    X: Float32,
    Z: Float32,
    labels: Int64,
    k: int,
    *,
    stable: Sequence[int] = (),
    seed: int = 0,
    config: LevelsConfig = DEFAULT,
) -> Levels | None:
    """The tree through the partition ``labels (n,)`` into k clusters; None if fewer than two are not empty.

    Args:
        X: features (n, D).
        Z: embedding (n, d), unit rows.
        labels: clusters in 0 ... k-1; some may be empty.
        k: number of clusters; finer levels number new clusters from k on.
        stable: numbers of clusters to mark as stable; those that are not levels are left out.
        seed: random seed.
        config: constants of the algorithm.
    """
    clusters = np.unique(labels)
    if len(clusters) < 2 or len(X) < 4:
        return None
    leaf, parents = _divide(Z, labels, clusters, seed, config)
    L = len(parents)
    Y = _smoothed(X, seed, config)
    sizes = np.bincount(leaf, minlength=L)
    within, across = ward_merges(_means(Y, leaf, sizes), sizes, parents)
    # a leaf that survives the merges within its cluster has the cluster's number; the others, numbers from k on
    numbers = parents.copy()
    for i, (_, gone) in enumerate(reversed(within)):
        numbers[gone] = k + i
    merges = tuple((int(numbers[a]), int(numbers[b])) for a, b in (*within, *across))
    centroids = np.round(_means(Z, leaf, sizes), config.digits)
    marks = sorted({m for m in stable if 2 <= m <= L} | {len(clusters)})
    return Levels(
        len(clusters),
        tuple(marks),
        tuple(map(int, numbers)),
        tuple(map(int, parents)),
        merges,
        tuple(tuple(map(float, row)) for row in centroids),
    )


def _divide(Z: Float32, labels: Int64, clusters: Int64, seed: int, config: LevelsConfig) -> tuple[Int64, Int64]:
    """The leaf (n,) of each row, by k-means of ``Z (n, d)`` within each cluster, and the cluster (L,) of each leaf."""
    n = len(Z)
    most = min(config.max_leaves, n // config.min_rows_per_leaf)
    generator = torch.Generator().manual_seed(seed)
    leaf, parents = np.empty(n, dtype=np.int64), list[int]()
    for cluster in clusters:
        rows = np.flatnonzero(labels == cluster)
        parts = max(1, min(round(most * len(rows) / n), len(rows) // 2))
        partition = np.zeros(len(rows), dtype=np.int64)
        if parts > 1:
            starts, inertia = kmeans(torch.from_numpy(Z[rows]), parts, config.starts, generator)
            partition = np.unique(starts[inertia.argmin()].numpy(), return_inverse=True)[1]
        leaf[rows] = len(parents) + partition
        parents += [int(cluster)] * (int(partition.max()) + 1)
    return leaf, np.array(parents, dtype=np.int64)


def _smoothed(X: Float32, seed: int, config: LevelsConfig) -> Float32:
    """(n, q) both views of ``X (n, D)`` side by side, each smoothed by a random walk over its neighbour graph."""
    m = max(1, min(config.neighbours, len(X) // 3))
    views = space_views(X, 2 * config.components, seed)
    graphs = view_neighbours(X, views, 2 * m, seed)
    rows = [
        Y
        for view, J in zip(unit_views(views, torch.from_numpy(X)), graphs, strict=True)
        for Y in smoothed(view[:, : config.components], J, m, (config.walk_steps,))
    ]
    return np.asarray(torch.cat(rows, dim=1).numpy(), dtype=np.float32)


def ward_merges(
    centroids: Float64, sizes: Int64, parents: Int64
) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Merge L clusters pair by pair with Ward's criterion: first those of the same parent, then all.

    Args:
        centroids: (L, p).
        sizes: (L,) numbers of rows.
        parents: (L,) numbers of the parents.

    Returns:
        The merges within parents and the merges of parents. Of each pair, the first is larger and stands for both.

    >>> ward_merges(np.array([[0.0], [5.0], [0.1], [9.0]]), np.array([1, 1, 2, 1]), np.array([0, 1, 0, 1]))
    ([(2, 0), (1, 3)], [(2, 1)])
    """
    C, s = centroids.astype(np.float64), sizes.astype(np.float64)
    squares = np.square(C).sum(1)
    costs = s[:, None] * s / (s[:, None] + s) * (squares[:, None] + squares - 2 * C @ C.T)
    np.fill_diagonal(costs, np.inf)
    merges: tuple[list[tuple[int, int]], list[tuple[int, int]]] = ([], [])
    for stage, allowed in enumerate((parents[:, None] == parents, np.ones_like(costs, dtype=np.bool_))):
        limited = np.where(allowed, costs, np.inf)
        while np.isfinite(best := limited.min()):
            a, b = (int(i) for i in np.argwhere(limited == best)[0])
            a, b = (a, b) if s[a] >= s[b] else (b, a)
            merges[stage].append((a, b))
            C[a] = (s[a] * C[a] + s[b] * C[b]) / (s[a] + s[b])
            s[a] += s[b]
            row = s[a] * s / (s[a] + s) * np.square(C - C[a]).sum(1)
            row[~np.isfinite(costs[a])] = np.inf  # itself, and those that are merged
            costs[a], costs[:, a] = row, row
            costs[b], costs[:, b] = np.inf, np.inf
            limited = np.where(allowed, costs, np.inf)
    return merges


def _means(Y: npt.NDArray[np.floating], groups: Int64, sizes: Int64) -> Float64:
    """(L, p) the mean of the rows of ``Y (n, p)`` in each of the L groups."""
    means = np.zeros((len(sizes), Y.shape[1]))
    np.add.at(means, groups, Y)
    return means / sizes[:, None]
