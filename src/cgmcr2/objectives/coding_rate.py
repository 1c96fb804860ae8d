"""The coding rate R: the nats needed to encode the rows of Z up to a distortion eps."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from cgmcr2.objectives._checks import (
    check_embedding,
    check_positive,
    full_precision,
    refuse_second_derivative,
    without_autocast,
)


def coding_rate(Z: Tensor, eps: float) -> Tensor:
    r"""Coding rate R of an embedding (the paper's first term, to be maximised).

    .. math:: R(Z; \epsilon) = \log\det\left(I + \frac{d}{n \epsilon^2} Z^\top Z\right)

    where ``Z (n, d)`` is the embedding, usually with unit rows, and ``eps`` is the distortion.

    The d x d and the n x n determinant are equal; the smaller one is computed by Cholesky factorisation, in at least
    float32, also for half-precision input and under autocast. Non-finite input gives NaN, not an exception.

    Parameters
    ----------
    Z : Tensor of shape (n, d)
        Embedding.
    eps : float
        Distortion, above 0.

    Returns
    -------
    R : Tensor of shape ()
        Differentiable with respect to ``Z``.

    Examples
    --------
    >>> Z = torch.eye(2)  # d / (n eps^2) = 4, so det(I + 4 I) = 25
    >>> round(coding_rate(Z, eps=0.5).exp().item(), 3)
    25.0
    """
    check_embedding(Z)
    check_positive("eps", eps)
    (Z,) = full_precision(Z)
    n, d = Z.shape
    with without_autocast(Z):
        rate: Tensor = _CodingRate.apply(Z, d / (n * eps**2))  # type: ignore[no-untyped-call]
    return rate


class _CodingRate(torch.autograd.Function):
    """``logdet(I + c Z'Z)``. The gradient ``2 c Z (I + c Z'Z)^-1`` reuses the Cholesky factor."""

    @staticmethod
    def forward(ctx: Any, Z: Tensor, c: float) -> Tensor:
        n, d = Z.shape
        M = (Z @ Z.T if n < d else Z.T @ Z).mul_(c)
        M.diagonal().add_(1)
        factor, failed = torch.linalg.cholesky_ex(M)
        ctx.save_for_backward(Z, factor)
        ctx.c = c
        return log_det(factor, failed)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        refuse_second_derivative()
        Z, factor = ctx.saved_tensors
        n, d = Z.shape
        solution = torch.cholesky_solve(Z, factor) if n < d else torch.cholesky_solve(Z.T, factor).T
        return 2 * ctx.c * grad * solution, None


def log_det(factor: Tensor, failed: Tensor) -> Tensor:
    """Log-determinant of matrices (..., m, m), given the two outputs of ``torch.linalg.cholesky_ex``.

    NaN where the factorisation failed. This happens for non-finite input only, because all eigenvalues are at least 1.
    ``torch.logdet`` is not used because its LU factorisation is silently wrong in some builds.
    """
    value: Tensor = 2 * factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)
    return value.masked_fill(failed > 0, torch.nan)
