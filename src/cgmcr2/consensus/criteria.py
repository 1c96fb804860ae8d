"""Criteria for the number of clusters: information, silhouette, eigengap, Ward's heights, agreement of the views."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp
import torch
from scipy.cluster.hierarchy import linkage
from sklearn.decomposition import PCA
from sklearn.metrics import pairwise_distances
from torch import Tensor

from cgmcr2._arrays import unit_rows
from cgmcr2._progress import progress_bar
from cgmcr2._random import sample_rows
from cgmcr2.graphs.spectral import leading_eigenvectors
from cgmcr2.graphs.walk import neighbour_matrix

from .ensemble import neighbourhood
from .kmeans import kmeans
from .partitions import Float32, Float64, Int64, adjusted_mutual_information, neighbour_information

MIN_HEIGHT = 1e-3  # of Ward's merges, relative to the last; less is rounding error between copies of a row


def partition_criteria(
    views: Sequence[list[Tensor]],
    neighbours: Sequence[Int64],
    rows: Int64,
    distances: Float32,
    grid: Sequence[int],
    generator: torch.Generator,
    *,
    progress: bool = False,
) -> tuple[Float64, Float64]:
    """For each k of the grid, the mean relative information and the mean silhouette of k-means partitions.

    The relative information is the share of its maximum log k that the neighbour information reaches. It falls if
    clusters are split where there are many neighbours across the border. Each row is judged on its nearest neighbours
    only, a third of the mean cluster size, so that small clusters are not penalised for neighbours that they cannot
    hold.

    Args:
        views: for each view, the smoothed rows (n, p) after each walk.
        neighbours: for each view, the neighbours (n, m) that its partitions are judged on.
        rows: (m,) the rows that silhouettes are computed on.
        distances: (m, m) between them.
        grid: numbers of clusters.
        generator: random generator.
        progress: show a progress bar.
    """
    means = np.empty((2, len(grid)))
    with progress_bar(len(grid), desc="Choosing k", unit="k", enabled=progress) as bar:
        for i, k in enumerate(grid):
            m = neighbourhood(len(neighbours[0]), k)
            starts = 8 if k <= 20 else 4 if k <= 60 else 2  # luck matters less with many clusters
            values = [
                (neighbour_information(partition, J[:, :m], k) / math.log(k), silhouette(distances, partition[rows], k))
                for view, J in zip(views, neighbours, strict=True)
                for Y in view
                for partition in _best_kmeans(Y, k, starts, 2, generator)
            ]
            means[:, i] = np.mean(values, axis=0)
            bar.update(1)
    return means[0], means[1]


def silhouette(distances: Float32, labels: Int64, k: int) -> float:
    """The mean silhouette of ``labels (m,)`` in 0 ... k-1, from ``distances (m, m)`` (Rousseeuw, 1987).

    Equals scikit-learn's ``silhouette_score`` in a fifth of its time; 0 if only one cluster has rows.

    >>> X = np.array([[0.0], [1], [10], [11]], dtype=np.float32)
    >>> round(silhouette(abs(X - X.T), np.array([0, 0, 1, 1]), 2), 2)
    0.9
    """
    index = np.arange(len(labels))
    sizes = np.bincount(labels, minlength=k)
    if np.count_nonzero(sizes) < 2:
        return 0.0
    totals = distances @ np.eye(k, dtype=np.float32)[labels]  # (m, k) summed distances to each cluster
    within = totals[index, labels] / np.maximum(sizes[labels] - 1, 1)
    means = np.where(sizes > 0, totals / np.maximum(sizes, 1), np.inf)
    means[index, labels] = np.inf
    nearest = means.min(axis=1)
    scores = (nearest - within) / np.maximum(np.maximum(within, nearest), 1e-12)
    return float(np.where(sizes[labels] > 1, scores, 0).mean())


def principal_distances(X: Float32, components: int, seed: int) -> Float32:
    """(n, n) the distances between the unit rows of ``X (n, D)`` in their leading principal components."""
    Y = PCA(min(components, *X.shape), random_state=seed).fit_transform(unit_rows(X))
    return np.asarray(pairwise_distances(Y), dtype=np.float32)


def eigengaps(neighbours: Sequence[Int64], most: int) -> Float64:
    """(most + 1,) the relative eigengap ``(w_k - w_{k+1}) / (1 - w_{k+1})`` for each k.

    The graph joins each row with its ``neighbours (n, m)`` of every view.

    >>> triangles = np.array([[1, 2], [0, 2], [0, 1], [4, 5], [3, 5], [3, 4]])
    >>> int(eigengaps([triangles], 3)[1:].argmax()) + 1
    2
    """
    n = len(neighbours[0])
    W = sp.csr_array((n, n))
    for J in neighbours:
        A = neighbour_matrix(J)
        W = W + A + A.T
    w = leading_eigenvectors(sp.csr_array(W), min(most + 1, n), 0, tol=1e-3, dense_rows=max(600, 2 * most))[0]
    w = np.clip(w, -1, 1)
    gaps = np.zeros(most + 1)
    gaps[1 : len(w)] = (w[:-1] - w[1:]) / np.maximum(1 - w[1:], 1e-9)
    return gaps


def ward_jumps(views: Sequence[list[Tensor]], most: int, rows: int, rng: np.random.Generator) -> Float64:
    """(most + 1,) for each k, by how much the k-th last of Ward's merges is higher than the one before it.

    The jump at k is ``log(h_k / h_{k+1})``, where h_k is the height of the merge of k clusters to k - 1. The tree is
    built on at most ``rows`` rows of all views side by side, and the jumps are averaged over the walk lengths.

    >>> Y = torch.tensor([[0.0], [0.1], [5.0], [5.1], [9.0], [9.1]])
    >>> int(ward_jumps([[Y]], 4, 100, np.random.default_rng(0)).argmax())
    3
    """
    sample = sample_rows(len(views[0][0]), rows, rng)
    jumps = np.zeros(most + 1)
    for smoothed in zip(*views, strict=True):  # each walk length
        heights = linkage(torch.cat(smoothed, dim=1).numpy()[sample], "ward")[::-1, 2]  # h_2, h_3, ...
        logs = np.log(np.maximum(heights, MIN_HEIGHT * max(heights[0], 1e-12)))
        k = np.arange(2, min(most, len(logs)) + 1)
        jumps[k] += (logs[k - 2] - logs[np.minimum(k - 1, len(logs) - 1)]) / len(views[0])
    return jumps


def view_agreement(views: Sequence[list[Tensor]], k: int, rng: np.random.Generator) -> float:
    """The mean adjusted mutual information between the k-means partitions of one view and those of the other."""
    generator = torch.Generator().manual_seed(int(rng.integers(2**31)))
    starts, best = (15, 5) if k <= 20 else (6, 2) if k <= 60 else (1, 1)  # luck matters less with many clusters
    one, other = ([p for Y in view for p in _best_kmeans(Y, k, starts, best, generator)] for view in views)
    return float(np.mean([adjusted_mutual_information(a, b, rng) for a in one for b in other]))


def standardized_excess(values: Float64, reference: Float64, k: int) -> Float64:
    """``values - reference`` in standard deviations, for numbers between 0 and 1 that depend on k clusters.

    Such a number is treated as the share of the k clusters that are well separated. The arcsine of the square root of a
    share of k trials has a standard deviation of about ``1 / (2 sqrt(k))``, whatever the share.

    >>> standardized_excess(np.array([0.9, 0.5]), np.array([0.6, 0.5]), k=4).round(2).tolist()
    [1.45, 0.0]
    """
    angles, reference_angles = (np.arcsin(np.sqrt(np.clip(shares, 0, 1))) for shares in (values, reference))
    excess: Float64 = 2 * math.sqrt(k) * (angles - reference_angles)
    return excess


def _best_kmeans(Y: Tensor, k: int, starts: int, best: int, generator: torch.Generator) -> Int64:
    """(best, n) the k-means partitions of lowest inertia; others are poor local optima, which agree by chance."""
    labels, inertia = kmeans(Y, k, starts, generator)
    partitions: Int64 = labels[inertia.argsort()[:best]].numpy()
    return partitions
