"""The cluster-wise coding rate Rc: the nats it takes to describe Z when the clusters are known."""

from __future__ import annotations

import torch
from torch import Tensor

from cgmcr2.objectives._checks import (
    check_embedding,
    check_memberships,
    check_positive,
    full_precision,
    without_autocast,
)
from cgmcr2.objectives.coding_rate import log_det_one_plus


def cluster_coding_rate(Z: Tensor, Pi: Tensor, eps: float, *, tolerance: float = 1e-6) -> Tensor:
    r"""Coding rate of an embedding cluster by cluster (the paper's second term, to be minimised).

    .. math::
        R_c(Z, \Pi; \epsilon) = \sum_{l=1}^k \frac{n_l}{n}
            \log\det\left(I + \frac{d}{n_l \epsilon^2} Z^\top \mathrm{diag}(\Pi_l) Z\right),
        \qquad n_l = \sum_i \Pi_{il}

    An empty cluster (``n_l = 0``) contributes nothing, with gradient zero.

    Args:
        Z: embedding (n, d).
        Pi: memberships (n, k), or (heads, n, k) for several cluster heads on one embedding.
        eps: distortion, above 0.
        tolerance: relative error allowed from leaving out negligible memberships.

    Returns:
        A scalar for ``Pi`` (n, k), or one value a head (heads,); differentiable with respect to ``Z`` and ``Pi``.

    >>> Z, Pi = torch.eye(2), torch.eye(2)  # each cluster: one row, c = 2 / (1 * 0.25) = 8, det = 9, weight 1/2
    >>> round(cluster_coding_rate(Z, Pi, eps=0.5).exp().item(), 3)
    9.0
    """
    check_embedding(Z)
    check_memberships(Pi, len(Z))
    check_positive("eps", eps)
    Z, Pi = full_precision(Z, Pi)
    n, d = Z.shape
    with without_autocast(Z):
        sizes = Pi.sum(-2)  # (..., k)
        weights = Pi / torch.where(sizes > 0, sizes, 1).unsqueeze(-2)  # each cluster's memberships sum to 1, or are 0
        weighted = weights.mT.unsqueeze(-2) * Z.T  # (..., k, 1, n) x (d, n) -> (..., k, d, n)
        rates = log_det_one_plus(weighted @ Z * (d / eps**2))  # (..., k)
        return (sizes * rates).sum(-1) / n
