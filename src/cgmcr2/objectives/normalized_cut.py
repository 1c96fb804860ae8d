"""The relaxed normalized cut of a graph, and its orthogonality penalty."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from cgmcr2.objectives._checks import (
    check_choice,
    check_memberships,
    full_precision,
    refuse_second_derivative,
    without_autocast,
)
from cgmcr2.objectives.affinity import Edges, degrees

Penalty = Literal["squared", "norm"]


class CutTerms(NamedTuple):
    """The parts of the normalized cut; the batch dimensions (...) are those of ``Pi (..., n, k)``.

    Attributes
    ----------
    trace : Tensor of shape (...)
        ``tr(H'LH)``, the normalized cut itself, between 0 and k.
    residual : Tensor of shape (...)
        ``||H'DH - I||_F^2``, zero for a hard partition.
    """

    trace: Tensor
    residual: Tensor


def normalized_cut(Pi: Tensor, A: Tensor | Edges, gamma: float, *, penalty: Penalty = "squared") -> Tensor:
    r"""Relaxed normalized cut of a graph (the paper's third term, to be minimised).

    .. math::
        L_\mathrm{ncut}(\Pi; A, \gamma) = \mathrm{tr}(H^\top L H) + \frac{\gamma}{2} \|H^\top D H - I\|_F^2,
        \qquad H = \Pi\, \mathrm{diag}(\Pi^\top \mathrm{deg})^{-1/2}

    where ``deg`` are the row sums of ``A``, ``D = diag(deg)`` and ``L = D - A``. For a hard partition the penalty is
    zero and the trace is the normalized cut: the sum over clusters of (weight of the edges that leave the cluster) /
    (volume of the cluster).

    Training calls :func:`cut_terms` and :func:`cut_penalty` instead, because it reports both terms separately.

    A cluster of volume zero has ``H_l = 0``, the limit as its memberships vanish. It adds 0 to the trace and 1 to
    ``||H'DH - I||_F^2``, hence gamma/2 to the loss, and its gradient is zero. Merging two clusters of a partition
    lowers the trace by at most 2 (by 1 on a graph without structure), so emptying a cluster increases the loss if
    gamma > 4.

    Parameters
    ----------
    Pi : Tensor of shape (n, k) or (heads, n, k)
        Memberships.
    A : Tensor of shape (n, n) or Edges
        Symmetric affinity, without gradient.
    gamma : float
        Weight of the penalty.
    penalty : {"squared", "norm"}
        ``"squared"`` as above, or ``"norm"`` for the released code's ``gamma * ||H'DH - I||_F / k``.

    Returns
    -------
    loss : Tensor of shape () or (heads,)

    Examples
    --------
    >>> A = torch.tensor([[0.0, 3, 1], [3, 0, 0], [1, 0, 0]])  # clusters {0, 1} and {2}: 1/7 + 1/1
    >>> Pi = torch.tensor([[1.0, 0], [1, 0], [0, 1]])
    >>> round(normalized_cut(Pi, A, gamma=10.0).item(), 4)
    1.1429
    """
    terms = cut_terms(Pi, A)
    return terms.trace + cut_penalty(terms.residual, gamma, Pi.shape[-1], penalty)


def cut_penalty(residual: Tensor, gamma: float, k: int, penalty: Penalty = "squared") -> Tensor:
    """Weighted penalty of k clusters, given the ``residual`` that :func:`cut_terms` returns.

    >>> cut_penalty(torch.tensor(4.0), gamma=3.0, k=2), cut_penalty(torch.tensor(4.0), gamma=3.0, k=2, penalty="norm")
    (tensor(6.), tensor(3.))
    """
    check_choice("penalty", penalty, Penalty)
    if penalty == "squared":
        return residual * (gamma / 2)
    positive = residual > 0  # the norm is not differentiable at 0; use the gradient zero, as torch.norm does
    return torch.where(positive, residual, 1).sqrt() * positive * (gamma / k)


def cut_terms(Pi: Tensor, A: Tensor | Edges) -> CutTerms:
    """Trace and residual of the normalized cut; see :func:`normalized_cut`.

    >>> A = torch.tensor([[0.0, 3, 1], [3, 0, 0], [1, 0, 0]])
    >>> cut_terms(torch.tensor([[1.0, 0], [1, 0], [0, 1]]), A).trace
    tensor(1.1429)
    """
    n = A.n if isinstance(A, Edges) else A.shape[-1]
    check_memberships(Pi, n)
    if not isinstance(A, Edges) and A.shape != (n, n):
        raise ValueError(f"A has shape {tuple(A.shape)}; pass a square affinity (n, n) or Edges.")
    if (A.weights if isinstance(A, Edges) else A).requires_grad:
        raise ValueError("A requires a gradient, but the cut does not provide one; pass A.detach().")
    with without_autocast(Pi):
        Pi, deg = full_precision(Pi, degrees(A))
        return CutTerms(*_CutTerms.apply(Pi, deg, _product(A, Pi.detach())))  # type: ignore[no-untyped-call]


class _CutTerms(torch.autograd.Function):
    """The terms with a hand-written gradient, which reuses the product ``A Pi``.

    With the volumes ``v = Pi'deg``, ``E = H'DH``, ``e`` its diagonal, ``a`` the diagonal of ``H'AH`` and ``X = E - I``:

        d trace / d Pi    = 2 (D Pi - A Pi) / v - deg (e - a)' / v
        d residual / d Pi = 4 D Pi (X_lm / sqrt(v_l v_m)) - 2 deg (sum_m X_lm E_lm)' / v
    """

    @staticmethod
    def forward(ctx: Any, Pi: Tensor, deg: Tensor, product: Tensor) -> tuple[Tensor, Tensor]:
        weighted = deg.unsqueeze(-1) * Pi  # D Pi (..., n, k)
        volumes = weighted.sum(-2)  # (..., k)
        # A volume below eps^2 of the total is rounding error; treat the cluster as empty, so that 1 / volume is finite.
        nonempty = volumes > torch.finfo(Pi.dtype).eps ** 2 * deg.sum()
        scale = torch.where(nonempty, volumes, 1).rsqrt() * nonempty  # 1 / sqrt(v)
        inner = Pi.mT @ weighted * (scale.unsqueeze(-1) * scale.unsqueeze(-2))  # E (..., k, k)
        cut = inner.diagonal(dim1=-2, dim2=-1) - (Pi * product).sum(-2) * scale.square()  # e - a (..., k)
        residual = inner - torch.eye(Pi.shape[-1], dtype=Pi.dtype, device=Pi.device)
        ctx.save_for_backward(deg, weighted, product, scale, inner, cut, residual)
        return cut.sum(-1), residual.square().sum((-2, -1))

    @staticmethod
    def backward(ctx: Any, trace: Tensor, square: Tensor) -> tuple[Tensor, None, None]:
        refuse_second_derivative()
        deg, weighted, product, scale, inner, cut, residual = ctx.saved_tensors
        inverse = scale.square()
        trace, square = trace.unsqueeze(-1), square.unsqueeze(-1)
        with without_autocast(deg):
            mixing = residual * (scale.unsqueeze(-1) * scale.unsqueeze(-2)) * (4 * square).unsqueeze(-1)
            mixing.diagonal(dim1=-2, dim2=-1).add_(2 * trace * inverse)
            by_degree = inverse * (trace * cut + 2 * square * (residual * inner).sum(-1))
            gradient = weighted @ mixing  # (..., n, k) x (..., k, k) -> (..., n, k)
        gradient.addcmul_(product, (2 * trace * inverse).unsqueeze(-2), value=-1)
        return gradient.addcmul_(deg.unsqueeze(-1), by_degree.unsqueeze(-2), value=-1), None, None


def _product(A: Tensor | Edges, Pi: Tensor) -> Tensor:
    """``A Pi`` (..., n, k), by sparse multiplication if ``A`` has few edges."""
    if isinstance(A, Edges) and len(A.weights) * 32 < A.n**2:  # measured: an edge costs as much as 32 dense entries
        columns = Pi.movedim(-2, 0)  # (n, ..., k)
        return A.product(columns.reshape(A.n, -1)).view(columns.shape).movedim(0, -2)
    return (A.dense() if isinstance(A, Edges) else A).to(Pi.dtype) @ Pi
