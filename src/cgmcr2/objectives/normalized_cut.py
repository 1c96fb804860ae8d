"""The normalized cut: how much affinity the clusters cut through, and how far they are from a partition."""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
from torch import Tensor

from cgmcr2.objectives._checks import check_memberships, full_precision, without_autocast
from cgmcr2.objectives.affinity import Edges, degrees

Penalty = Literal["squared", "norm"]


class CutTerms(NamedTuple):
    """The parts of the normalized cut; each has one entry a head where ``Pi`` has heads.

    trace: ``tr(H'LH)``, the normalized cut itself, between 0 and k. residual: ``||H'DH - I||_F^2``, how far the
    clusters are from a partition. volumes: ``Pi'deg`` (..., k), each cluster's share of the degrees.
    """

    trace: Tensor
    residual: Tensor
    volumes: Tensor


def normalized_cut(Pi: Tensor, A: Tensor | Edges, gamma: float, *, penalty: Penalty = "squared") -> Tensor:
    r"""Relaxed normalized cut of a graph (the paper's third term, to be minimised).

    .. math::
        L_\mathrm{ncut}(\Pi; A, \gamma) = \mathrm{tr}(H^\top L H) + \frac{\gamma}{2} \|H^\top D H - I\|_F^2,
        \qquad H = \Pi\, \mathrm{diag}(\Pi^\top \mathrm{deg})^{-1/2}

    where ``deg`` are the row sums of ``A``, ``D = diag(deg)`` and ``L = D - A``. For a hard partition the penalty is
    zero and the trace is the normalized cut: the sum over clusters of (affinity that leaves it) / (its volume).

    A cluster without volume has ``H_l = 0``, the limit as it empties: it costs nothing in the trace and 1 in
    ``||H'DH - I||_F^2``, that is gamma/2, and its gradient is zero. Giving a cluster's rows to another one lowers the
    trace of a partition by at most 2 (by 1 on a graph without structure), so with gamma > 4 emptying never pays.

    Args:
        Pi: memberships (n, k) or (heads, n, k).
        A: affinity, dense (n, n) and symmetric or as :class:`Edges`.
        gamma: weight of the penalty.
        penalty: ``"squared"`` as above, or ``"norm"`` for the released code's ``gamma * ||H'DH - I||_F / k``.

    Returns:
        A scalar for ``Pi`` (n, k), or one value a head (heads,).

    >>> A = torch.tensor([[0.0, 3, 1], [3, 0, 0], [1, 0, 0]])  # clusters {0, 1} and {2}: 1/7 + 1/1
    >>> Pi = torch.tensor([[1.0, 0], [1, 0], [0, 1]])
    >>> round(normalized_cut(Pi, A, gamma=10.0).item(), 4)
    1.1429
    """
    terms = cut_terms(Pi, A)
    return terms.trace + cut_penalty(terms.residual, gamma, Pi.shape[-1], penalty)


def cut_penalty(residual: Tensor, gamma: float, k: int, penalty: Penalty = "squared") -> Tensor:
    """The weighted penalty for a residual ``||H'DH - I||_F^2`` of :func:`cut_terms`.

    >>> cut_penalty(torch.tensor(4.0), gamma=3.0, k=2), cut_penalty(torch.tensor(4.0), gamma=3.0, k=2, penalty="norm")
    (tensor(6.), tensor(3.))
    """
    if penalty == "squared":
        return residual * (gamma / 2)
    if penalty == "norm":
        positive = residual > 0  # the norm has no gradient at 0; take zero, as torch.norm does
        return torch.where(positive, residual, 1).sqrt() * positive * (gamma / k)
    raise ValueError(f'penalty is {penalty!r}; choose "squared" or "norm".')


def cut_terms(Pi: Tensor, A: Tensor | Edges) -> CutTerms:
    """The trace, the residual of the penalty, and the clusters' volumes; see :func:`normalized_cut`.

    >>> A = torch.tensor([[0.0, 3, 1], [3, 0, 0], [1, 0, 0]])
    >>> cut_terms(torch.tensor([[1.0, 0], [1, 0], [0, 1]]), A).volumes
    tensor([7., 1.])
    """
    n = A.n if isinstance(A, Edges) else A.shape[-1]
    check_memberships(Pi, n)
    if not isinstance(A, Edges) and A.shape != (n, n):
        raise ValueError(f"A has shape {tuple(A.shape)}; pass a square affinity (n, n) or Edges.")
    with without_autocast(Pi):
        deg = degrees(A)
        Pi, deg = full_precision(Pi, deg)
        weighted = deg.unsqueeze(-1) * Pi  # D Pi (..., n, k)
        volumes = weighted.sum(-2)  # (..., k)
        # A volume this far below the whole is rounding error: its cluster is empty, and 1 / volume would overflow.
        alive = volumes > torch.finfo(Pi.dtype).eps ** 2 * deg.sum()
        scale = torch.where(alive, volumes, 1).rsqrt() * alive
        inner = Pi.mT @ weighted * (scale.unsqueeze(-1) * scale.unsqueeze(-2))  # H'DH (..., k, k)
        association = (Pi * _product(A, Pi)).sum(-2) * scale**2  # the diagonal of H'AH
        trace = (inner.diagonal(dim1=-2, dim2=-1) - association).sum(-1)
        identity = torch.eye(Pi.shape[-1], dtype=Pi.dtype, device=Pi.device)
        residual = (inner - identity).square().sum((-2, -1))
    return CutTerms(trace, residual, volumes)


def _product(A: Tensor | Edges, Pi: Tensor) -> Tensor:
    return (A.dense() if isinstance(A, Edges) else A).to(Pi.dtype) @ Pi
