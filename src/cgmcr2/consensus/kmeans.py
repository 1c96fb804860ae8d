"""k-means from several initialisations at once: their centroids side by side make each iteration one matrix product."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from cgmcr2._threads import one_thread

MAX_ITER = 20  # later iterations move few rows
POOL_ROWS = 2_000  # rows that initial centroids are drawn from, or POOL_ROWS_PER_CLUSTER x k if more
POOL_ROWS_PER_CLUSTER = 20
BLOCK_ENTRIES = 1 << 22  # rows x centroids held at once, 16 MB; larger blocks do not fit the cache
FEW_CLUSTERS = 16  # below, a product with one-hot memberships sums the rows of the clusters faster than index_add_


@torch.no_grad()
def kmeans(
    X: Tensor,
    k: int,
    starts: int,
    generator: torch.Generator,
    *,
    block_entries: int = BLOCK_ENTRIES,
) -> tuple[Tensor, Tensor]:
    """Labels (starts, n) of ``X (n, p)`` from each k-means++ initialisation, and the inertia (starts,).

    Args:
        X: rows to cluster (n, p).
        k: number of clusters.
        starts: number of initialisations.
        generator: random generator.
        block_entries: similarities of rows to centroids held at once.

    >>> X = torch.tensor([[0.0], [0.1], [5.0], [5.1]])
    >>> labels, _ = kmeans(X, 2, 3, torch.Generator().manual_seed(0))
    >>> (labels[:, :2] == labels[:, :1]).all().item(), (labels[:, 0] != labels[:, 2]).all().item()
    (True, True)
    """
    pool = torch.randperm(len(X), generator=generator)[: max(POOL_ROWS, POOL_ROWS_PER_CLUSTER * k)]
    C = plus_plus_centroids(X[pool], k, starts, generator)  # (starts, k, p)
    labels = torch.empty(0)
    for _ in range(MAX_ITER):
        previous = labels
        labels, gain, sums, sizes = _assign(X, C, block_entries)
        if torch.equal(labels, previous):
            break
        # an empty cluster keeps its centroid
        C = torch.where(sizes[:, :, None] > 0, sums / sizes[:, :, None].clamp_min(1), C)
    return labels.T.contiguous(), X.square().sum() - 2 * gain


def _assign(X: Tensor, C: Tensor, block_entries: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Assign each row of ``X (n, p)`` to the nearest of the centroids ``C (starts, k, p)``.

    Returns:
        Labels (n, starts); gain (starts,), the sum of ``x'c - |c|^2 / 2``; and for each centroid the sum (starts, k, p)
        and the number (starts, k) of its rows.
    """
    starts, k, p = C.shape
    flat = C.flatten(0, 1)
    half = 0.5 * flat.square().sum(1)
    labels, gain = torch.empty(len(X), starts, dtype=torch.long), torch.zeros(starts)
    sums, sizes = torch.zeros_like(flat), torch.zeros(starts * k)
    block = max(1, block_entries // (starts * k))
    for rows, row_labels in zip(torch.split(X, block), torch.split(labels, block), strict=True):
        # |x - c|^2 = |x|^2 - 2 (x'c - |c|^2 / 2)
        best = torch.addmm(-half, rows, flat.T).view(len(rows), starts, k).max(-1)
        gain += best.values.sum(0)
        row_labels.copy_(best.indices)
        if k < FEW_CLUSTERS:
            members = torch.zeros(len(rows), starts, k).scatter_(2, best.indices[:, :, None], 1).flatten(1)
            sums.addmm_(members.T, rows)
            sizes += members.sum(0)
        else:
            nearest = best.indices + k * torch.arange(starts)  # row of flat
            sizes += nearest.flatten().bincount(minlength=len(sizes))
            with one_thread():  # a parallel index_add_ is slower
                for column in nearest.T:
                    sums.index_add_(0, column, rows)
    return labels, gain, sums.view(starts, k, p), sizes.view(starts, k)


def plus_plus_centroids(X: Tensor, k: int, starts: int, generator: torch.Generator) -> Tensor:
    """(starts, k, p) rows of ``X (n, p)`` by greedy k-means++."""
    n, p = X.shape
    trials = 2 + int(math.log(k))
    squares = X.square().sum(1)
    C = torch.empty(starts, k, p)
    C[:, 0] = X[torch.randint(n, (starts,), generator=generator)]
    nearest = torch.full((starts, n), torch.inf)  # squared distance to the nearest centroid so far
    for j in range(1, k):
        c = C[:, j - 1]
        nearest = torch.minimum(nearest, (squares - 2 * c @ X.T + c.square().sum(1, keepdim=True)).clamp_min_(0))
        rows = torch.multinomial(nearest + 1e-12, trials, replacement=True, generator=generator)
        candidates = X[rows]  # (starts, trials, p)
        distance = (squares - 2 * candidates @ X.T + squares[rows][:, :, None]).clamp_min_(0)  # (starts, trials, n)
        best = torch.minimum(nearest[:, None], distance).sum(-1).argmin(1)
        C[:, j] = candidates[torch.arange(starts), best]
    return C
