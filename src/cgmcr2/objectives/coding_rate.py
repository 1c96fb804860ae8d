"""The coding rate R: how many nats it takes to describe the rows of Z up to a distortion eps."""

from __future__ import annotations

import torch
from torch import Tensor

from cgmcr2.objectives._checks import check_embedding, check_positive, full_precision, without_autocast


def coding_rate(Z: Tensor, eps: float) -> Tensor:
    r"""Coding rate of an embedding (the paper's first term, to be maximised).

    .. math:: R(Z; \epsilon) = \log\det\left(I + \frac{d}{n \epsilon^2} Z^\top Z\right)

    where ``Z (n, d)`` is the embedding, usually with rows of unit length, and ``eps`` the distortion allowed.
    Of the two equal determinants, d x d and n x n, the smaller is computed; by Cholesky and in float32 or better, also
    for half-precision input and under autocast. Input that is not finite gives NaN, not an exception.

    Args:
        Z: embedding (n, d).
        eps: distortion, above 0.

    Returns:
        A scalar, differentiable with respect to ``Z``.

    >>> Z = torch.eye(2)  # c = d / (n eps^2) = 4: det(I + 4 I) = 25
    >>> round(coding_rate(Z, eps=0.5).exp().item(), 3)
    25.0
    """
    check_embedding(Z)
    check_positive("eps", eps)
    (Z,) = full_precision(Z)
    n, d = Z.shape
    with without_autocast(Z):
        gram = Z @ Z.T if n < d else Z.T @ Z
        return log_det_one_plus(gram * (d / (n * eps**2)))


def log_det_one_plus(S: Tensor) -> Tensor:
    """``logdet(I + S)`` of positive semi-definite matrices (..., m, m), by Cholesky: LU is wrong in some builds."""
    factor, failed = torch.linalg.cholesky_ex(S + torch.eye(S.shape[-1], dtype=S.dtype, device=S.device))
    value: Tensor = 2 * factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)
    return value.masked_fill(failed > 0, torch.nan)  # only where the input was not finite
