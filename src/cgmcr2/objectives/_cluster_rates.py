"""Log-determinants of many clusters and their derivatives: the kernels of ``cluster_coding_rate``.

A cluster has weights ``w (n,)`` that sum to one, ``w_i = Pi_il / n_l``. With ``alpha = d / eps^2`` and
``M = I + alpha Z' diag(w) Z (d, d)``, the kernels compute:

- ``rate = logdet M``, the cluster's term in Rc;
- ``leverage_i = z_i' M^-1 z_i``, the ridge leverage score of row i, which is the derivative of the rate with respect to
  ``alpha w_i``, also where ``w_i = 0``;
- ``dz_i = w_i M^-1 z_i``, which is the derivative of the rate with respect to ``z_i``, divided by ``2 alpha``.

All three follow from one Cholesky factor. They are computed for one chunk of clusters at a time, so that no array of
shape (clusters, d, n) or (clusters, d, d) is allocated for all clusters.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from cgmcr2._threads import map_threads
from cgmcr2.objectives.coding_rate import log_det

# Maximum buffer size of a chunk: fits the last-level cache of a CPU, and keeps a GPU busy.
_CHUNK_BYTES = {"cpu": 2**21, "cuda": 2**28}
_MIN_CHUNKS = {"cpu": 4}  # parallel operations on few small matrices are slower than one thread for each chunk
_MAX_PARTS = 32  # that threads compute independently; fixed, so that rounding does not depend on the number of threads


class Derivatives(NamedTuple):
    """Output buffers of the kernels.

    Attributes
    ----------
    leverage : Tensor of shape (clusters, n)
        Ridge leverage scores.
    dZ : Tensor of shape (heads, n, d)
        Sum of ``share * dz`` over the clusters of a head.
    """

    leverage: Tensor
    dZ: Tensor


def rates_by_rows(
    Z: Tensor,
    clusters: Tensor,
    head: int,
    weights: Tensor,
    share: Tensor,
    alpha: float,
    out: Derivatives | None,
    *,
    chunk_bytes: int | None = None,
) -> Tensor:
    """Rates of large clusters of one head, by d x d determinants over all rows.

    Parameters
    ----------
    Z : Tensor of shape (n, d)
        Embedding.
    clusters : Tensor of shape (c,)
        Indices of the clusters in ``out.leverage``.
    head : int
        Index of their head in ``out.dZ``.
    weights : Tensor of shape (c, n)
        Weights of the rows in each cluster.
    share : Tensor of shape (c,)
        Fraction of the rows in each cluster, ``n_l / n``.
    alpha : float
        Factor of the weights in ``M``.
    out : Derivatives or None
        Buffers for the derivatives; None computes the rates only.
    chunk_bytes : int, optional
        Maximum buffer size; default depends on the device.

    Returns
    -------
    rates : Tensor of shape (c,)
    """
    n, d = Z.shape
    columns = Z.T.contiguous()

    def compute(chunks: Sequence[tuple[Tensor, ...]]) -> tuple[Tensor, Tensor]:
        """Rates of the clusters of some chunks, and their part of dZ' (d, n)."""
        dZ = torch.zeros_like(columns)
        rates = []
        for chunk, w, chunk_share in chunks:
            M = _lower_half(columns, w).mul_(alpha)  # M_l = I + alpha_l Z' diag(Pi_l) Z, alpha_l = alpha / n_l
            M.diagonal(dim1=-2, dim2=-1).add_(1)
            factor, failed = torch.linalg.cholesky_ex(M)
            rates.append(log_det(factor, failed))
            if out is not None:
                inverse = torch.cholesky_inverse(factor).mT.reshape(-1, d)  # symmetric; its transpose is contiguous
                solutions = (inverse @ columns).view(-1, d, n)  # M^-1 Z': (c d, d) x (d, n) -> (c d, n)
                for solution, scaled in zip(solutions, w * chunk_share.unsqueeze(-1), strict=True):
                    dZ.addcmul_(solution, scaled)  # one pass over memory; a batched sum takes three
                out.leverage[chunk] = solutions.mul_(columns).sum(1)
        return torch.cat(rates), dZ

    chunks = list(_chunks(n * d, chunk_bytes, clusters, weights, share, at_least=_MIN_CHUNKS.get(Z.device.type, 1)))
    size = -(-len(chunks) // _MAX_PARTS) if Z.device.type == "cpu" else len(chunks)
    parts = [chunks[start : start + size] for start in range(0, len(chunks), size)]
    rates = []
    for part_rates, dZ in map_threads(compute, parts):
        rates.append(part_rates)
        if out is not None:
            out.dZ[head] += dZ.T
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
    *,
    chunk_bytes: int | None = None,
) -> Tensor:
    """Rates of clusters with m members each, by the smaller of the d x d and the m x m determinant.

    The m x m matrix is ``G = I + B B'`` with ``B = sqrt(alpha w) Z`` of the members. It satisfies
    ``logdet G = logdet M`` and ``B M^-1 = G^-1 B``.

    Parameters
    ----------
    Z : Tensor of shape (n, d)
        Embedding.
    clusters : Tensor of shape (c,)
        Indices of the clusters in ``out.leverage``.
    heads : Tensor of shape (c,)
        Indices of their heads in ``out.dZ``.
    rows : Tensor of shape (c, m)
        Members of each cluster, without duplicates.
    weights : Tensor of shape (c, m)
        Weights of the members; all other weights are taken as 0.
    share : Tensor of shape (c,)
        Fraction of the rows in each cluster, ``n_l / n``.
    alpha : float
        Factor of the weights in ``M``.
    out : Derivatives or None
        Buffers for the derivatives; None computes the rates only. ``leverage`` is written for the members only.
    chunk_bytes : int, optional
        Maximum buffer size; default depends on the device.

    Returns
    -------
    rates : Tensor of shape (c,)
    """
    n, d = Z.shape
    m = rows.shape[1]
    identity = torch.eye(min(m, d), dtype=Z.dtype, device=Z.device)
    rates = []
    for chunk, head, i, w, chunk_share in _chunks(m * d, chunk_bytes, clusters, heads, rows, weights, share):
        members = Z[i]  # (c, m, d)
        root = (alpha * w).sqrt().unsqueeze(-1)
        B = members * root
        matrix = torch.baddbmm(identity, B, B.mT) if m <= d else torch.baddbmm(identity, B.mT, B)
        factor, failed = torch.linalg.cholesky_ex(matrix)
        rates.append(log_det(factor, failed))
        if out is None:
            continue
        inverse = torch.cholesky_inverse(factor)
        solution = inverse @ B if m <= d else B @ inverse  # B M^-1 (c, m, d)
        dZ = solution * (root * (chunk_share / alpha).view(-1, 1, 1))
        out.dZ.view(-1, d).index_add_(0, (head.unsqueeze(-1) * n + i).flatten(), dZ.view(-1, d))
        root = root.squeeze(-1)
        leverage = (solution * members).sum(-1) / root
        out.leverage[chunk.unsqueeze(-1), i] = torch.where(root > 0, leverage, members.square().sum(-1))
    return torch.cat(rates)


def _lower_half(columns: Tensor, w: Tensor) -> Tensor:
    """``Z' diag(w) Z`` (c, d, d) for each row of ``w`` (c, n); only the lower triangle is valid."""
    (d, n), c = columns.shape, len(w)
    weighted = columns.unsqueeze(1) * w  # (d, c, n)
    M = columns.new_empty(c, d, d)
    step = max(32, -(-d // 4))  # four blocks of rows save 3/8 of the operations
    for start in range(0, d, step):
        stop = min(start + step, d)
        block = weighted[start:stop].view(-1, n) @ columns[:stop].T  # (b c, n) x (n, e) -> (b c, e)
        M[:, start:stop, :stop] = block.view(-1, c, stop).transpose(0, 1)
    return M


def _chunks(entries: int, chunk_bytes: int | None, *tensors: Tensor, at_least: int = 1) -> zip[tuple[Tensor, ...]]:
    """Split tensors along the clusters (their first dimension), which need buffers of ``entries`` numbers each."""
    share = tensors[-1]
    chunk_bytes = chunk_bytes or _CHUNK_BYTES.get(share.device.type, 2**28)
    size = max(1, min(chunk_bytes // (entries * share.element_size()), len(share) // at_least))
    return zip(*(torch.split(tensor, size) for tensor in tensors), strict=True)
