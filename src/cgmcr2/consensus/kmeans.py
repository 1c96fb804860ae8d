"""k-means from several starts at once: their centres side by side make one large matrix product of each iteration."""

from __future__ import annotations

import math

import torch
from torch import Tensor

ITERATIONS = 20
POOL = 2_000  # rows, or 20 a cluster where that is more, among which the first centres are sought
ENTRIES = 1 << 24  # of a block of rows times all centres that are held at once


@torch.no_grad()
def kmeans(
    X: Tensor,
    k: int,
    starts: int,
    generator: torch.Generator,
    *,
    rows: int | None = None,
    weights: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """(starts, n) the clusters of ``X (n, p)`` found from each start, and (starts,) the squared distances they leave.

    ``rows``: the centres are sought among so many rows, drawn at random; all rows get labels. ``weights (n,)``: each
    row counts as so many.

    >>> X = torch.tensor([[0.0], [0.1], [5.0], [5.1]])
    >>> labels, _ = kmeans(X, 2, 3, torch.Generator().manual_seed(0))
    >>> (labels[:, :2] == labels[:, :1]).all().item(), (labels[:, 0] != labels[:, 2]).all().item()
    (True, True)
    """
    order = torch.randperm(len(X), generator=generator)
    w = torch.ones(len(X)) if weights is None else weights
    sample, counts = (X, w) if rows is None or rows >= len(X) else (X[order[:rows]], w[order[:rows]])
    pool = order[: max(POOL, 20 * k)]
    C = spread_centres(X[pool], w[pool], k, starts, generator)  # (starts, k, p)
    labels = torch.empty(0)
    for _ in range(ITERATIONS):
        known = labels
        labels, gain, sums, sizes = _assign(sample, counts, C)
        if torch.equal(labels, known):
            break
        C = torch.where(sizes[:, :, None] > 0, sums / sizes[:, :, None].clamp_min(1e-12), C)  # an empty one stays
    if sample is not X:
        labels, gain, *_ = _assign(X, w, C)
    return labels.T.contiguous(), w @ X.square().sum(1) - 2 * gain


def _assign(X: Tensor, w: Tensor, C: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The nearest of the centres ``C (starts, k, p)`` to each row: its number (n, starts), what it takes off half the
    squares of the rows (starts,), and of the rows of each centre, which count ``w (n,)`` times, the sum
    (starts, k, p) and the number (starts, k)."""
    starts, k, p = C.shape
    flat = C.flatten(0, 1)
    half = 0.5 * flat.square().sum(1)
    labels, gain = torch.empty(len(X), starts, dtype=torch.long), torch.zeros(starts)
    sums, sizes = torch.zeros_like(flat), torch.zeros(starts * k)
    block = max(1, ENTRIES // (starts * k))
    for part, found, counts in zip(*(torch.split(each, block) for each in (X, labels, w)), strict=True):
        best = (part @ flat.T).sub_(half).view(len(part), starts, k).max(-1)  # |x|^2 - 2 max: squared distance
        gain += counts @ best.values
        found.copy_(best.indices)
        times = counts[:, None, None].expand(-1, starts, 1)
        member = torch.zeros(len(part), starts, k).scatter_(2, best.indices[:, :, None], times).flatten(1)
        sums.addmm_(member.T, part)
        sizes += member.sum(0)
    return labels, gain, sums.view(starts, k, p), sizes.view(starts, k)


def spread_centres(X: Tensor, w: Tensor, k: int, starts: int, generator: torch.Generator) -> Tensor:
    """(starts, k, p) rows of ``X``, which count ``w`` times, far from one another: k-means++ with several candidates
    for each centre."""
    n, p = X.shape
    tries = 2 + int(math.log(k))
    square = X.square().sum(1)
    C = torch.empty(starts, k, p)
    C[:, 0] = X[torch.multinomial(w, starts, replacement=True, generator=generator)]
    nearest = torch.full((starts, n), torch.inf)  # squared distance to the centres so far
    for j in range(1, k):
        c = C[:, j - 1]
        nearest = torch.minimum(nearest, (square - 2 * c @ X.T + c.square().sum(1, keepdim=True)).clamp_min_(0))
        rows = torch.multinomial(nearest * w + 1e-12, tries, replacement=True, generator=generator)  # (starts, tries)
        candidates = X[rows]
        distance = (square - 2 * candidates @ X.T + square[rows][:, :, None]).clamp_min_(0)  # (starts, tries, n)
        best = (torch.minimum(nearest[:, None], distance) @ w).argmin(1)
        C[:, j] = candidates[torch.arange(starts), best]
    return C
