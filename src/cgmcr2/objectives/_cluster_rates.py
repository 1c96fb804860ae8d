"""The rates of many clusters together with their derivatives: the kernels under ``cluster_coding_rate``.

For a cluster with weights ``w (n,)`` that sum to one, and ``M = I + alpha Z' diag(w) Z (d, d)``:

- ``rate = logdet M``;
- ``quad_i = z_i' M^-1 z_i`` is its derivative with respect to ``alpha w_i``, also for a row with ``w_i = 0``;
- ``pull_i = w_i M^-1 z_i`` is its derivative with respect to ``z_i``, up to the factor ``2 alpha``.

All three come from one Cholesky factor. So they are computed at once, a chunk of clusters at a time, and nothing else
is kept: no array of (clusters, d, n) or (clusters, d, d) ever exists.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from cgmcr2.objectives.coding_rate import log_det

# The largest buffer of a chunk: it should stay in a CPU's last cache, and fill a GPU.
_CHUNK_BYTES = {"cpu": 2**23, "cuda": 2**28}


class Derivatives(NamedTuple):
    """``quad`` (clusters, n), and ``pull`` (heads, n, d): the sum over a head's clusters, each times its share."""

    quad: Tensor
    pull: Tensor


def rates_by_rows(
    Z: Tensor, clusters: Tensor, head: int, weights: Tensor, share: Tensor, alpha: float, out: Derivatives | None
) -> Tensor:
    """The rates of clusters of one head that have many members, from the d x d form with every row.

    Args:
        Z: embedding (n, d).
        clusters: (c,) places of these clusters in ``out.quad``.
        head: place of their head in ``out.pull``.
        weights: (c, n).
        share: (c,).
        alpha: factor of the weights in ``M``.
        out: where the derivatives are written; ``None`` if they are not needed.

    Returns:
        Rates (c,).
    """
    n, d = Z.shape
    columns = Z.T.contiguous()
    pulled = torch.zeros_like(columns)
    rates = []
    for chunk, w, part in _chunks(n * d, clusters, weights, share):
        M = _lower_half(columns, w).mul_(alpha)
        M.diagonal(dim1=-2, dim2=-1).add_(1)
        factor, failed = torch.linalg.cholesky_ex(M)
        rates.append(log_det(factor, failed))
        if out is not None:
            inverse = torch.cholesky_inverse(factor).mT.reshape(-1, d)  # symmetric, and contiguous only transposed
            solved = (inverse @ columns).view(-1, d, n)  # (c d, d) x (d, n) -> (c d, n): every M^-1 z
            for one, scaled in zip(solved, w * part.unsqueeze(-1), strict=True):
                pulled.addcmul_(one, scaled)  # a single pass over memory, where a sum over clusters takes three
            out.quad[chunk] = solved.mul_(columns).sum(1)
    if out is not None:
        out.pull[head] += pulled.T
    return torch.cat(rates)


def rates_by_members(
    Z: Tensor,
    clusters: Tensor,
    heads: Tensor,
    rows: Tensor,
    weights: Tensor,
    share: Tensor,
    alpha: float,
    out: Derivatives | None,
    everywhere: bool,
) -> Tensor:
    """The rates of clusters of which only some rows are members, from the smaller of the d x d and the m x m form.

    The latter is ``G = I + B B'`` with ``B = sqrt(alpha w) Z`` of the members: ``logdet G = logdet M`` and
    ``B M^-1 = G^-1 B``; with ``G = F F'`` every row, member or not, has ``quad = z'z - |F^-1 B z|^2``.

    Args:
        Z: embedding (n, d).
        clusters: (c,) places of these clusters in ``out.quad``.
        heads: (c,) places of their heads in ``out.pull``.
        rows: (c, m) members of each, all different.
        weights: (c, m) of the members; the other rows' are taken as 0.
        share: (c,).
        alpha: factor of the weights in ``M``.
        out: where the derivatives are written; ``None`` if they are not needed. ``out.quad`` holds ``z'z`` before.
        everywhere: write ``quad`` for all rows, not for the members only; ``m`` must not exceed d then.

    Returns:
        Rates (c,).
    """
    n, d = Z.shape
    m = rows.shape[1]
    identity = torch.eye(min(m, d), dtype=Z.dtype, device=Z.device)
    rates = []
    for chunk, head, i, w, part in _chunks(m * (n if everywhere else d), clusters, heads, rows, weights, share):
        members = Z[i]  # (c, m, d)
        root = (alpha * w).sqrt().unsqueeze(-1)
        B = members * root
        matrix = torch.baddbmm(identity, B, B.mT) if m <= d else torch.baddbmm(identity, B.mT, B)
        factor, failed = torch.linalg.cholesky_ex(matrix)
        rates.append(log_det(factor, failed))
        if out is None:
            continue
        inverse = torch.cholesky_inverse(factor)
        solved = inverse @ B if m <= d else B @ inverse  # B M^-1 (c, m, d)
        pulls = solved * (root * (part / alpha).view(-1, 1, 1))
        out.pull.view(-1, d).index_add_(0, (head.unsqueeze(-1) * n + i).flatten(), pulls.view(-1, d))
        if everywhere:
            whitened = torch.linalg.solve_triangular(factor, B, upper=False).reshape(-1, d)
            explained = (whitened @ Z.T).view(-1, m, n)  # (c m, d) x (d, n) -> (c m, n)
            out.quad[chunk] -= explained.square_().sum(1)
        else:
            root = root.squeeze(-1)
            quad = (solved * members).sum(-1) / root
            out.quad[chunk.unsqueeze(-1), i] = torch.where(root > 0, quad, members.square().sum(-1))
    return torch.cat(rates)


def _lower_half(columns: Tensor, w: Tensor) -> Tensor:
    """``Z' diag(w) Z`` (c, d, d) for each row of ``w`` (c, n), right in the lower triangle only."""
    (d, n), c = columns.shape, len(w)
    weighted = columns.unsqueeze(1) * w  # (d, c, n)
    M = columns.new_empty(c, d, d)
    step = max(32, -(-d // 4))  # four steps save 3/8 of the product
    for start in range(0, d, step):
        stop = min(start + step, d)
        block = weighted[start:stop].view(-1, n) @ columns[:stop].T  # (b c, n) x (n, e) -> (b c, e)
        M[:, start:stop, :stop] = block.view(-1, c, stop).transpose(0, 1)
    return M


def _chunks(entries: int, *tensors: Tensor) -> zip[tuple[Tensor, ...]]:
    """The tensors split alike along the clusters, each of which needs so many entries of working memory."""
    like = tensors[-1]
    size = max(1, _CHUNK_BYTES.get(like.device.type, 2**28) // (entries * like.element_size()))
    return zip(*(torch.split(tensor, size) for tensor in tensors), strict=True)
