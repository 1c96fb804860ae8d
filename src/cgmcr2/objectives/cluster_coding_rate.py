"""The cluster-wise coding rate Rc: the nats needed to encode Z when the cluster of each row is known.

Reference formula, with ``w = Pi[:, l]`` and ``n_l = w.sum()``:
``Rc = sum_l n_l / n * logdet(I + d / (n_l * eps**2) * Z.T @ diag(w) @ Z)``. This module selects the members of each
cluster and groups clusters of similar size; ``_cluster_rates.py`` computes the log-determinants.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from cgmcr2.objectives._checks import (
    check_embedding,
    check_memberships,
    check_positive,
    full_precision,
    refuse_second_derivative,
    without_autocast,
)
from cgmcr2.objectives._cluster_rates import Derivatives, rates_by_members, rates_by_rows


def cluster_coding_rate(Z: Tensor, Pi: Tensor, eps: float, *, tolerance: float = 1e-6) -> Tensor:
    r"""Cluster-wise coding rate Rc of an embedding (the paper's second term, to be minimised).

    .. math::
        R_c(Z, \Pi; \epsilon) = \sum_{l=1}^k \frac{n_l}{n}
            \log\det\left(I + \frac{d}{n_l \epsilon^2} Z^\top \mathrm{diag}(\Pi_l) Z\right),
        \qquad n_l = \sum_i \Pi_{il}

    where ``Z (n, d)`` is the embedding, ``Pi_l (n,)`` are the memberships of cluster l, and ``eps`` is the distortion.
    An empty cluster (``n_l = 0``) contributes nothing and has gradient zero.

    *Cost.* Negligible memberships are dropped. The cost of a cluster then depends on its m remaining members, and the
    smaller of the d x d and the m x m determinant is computed. Diffuse memberships, which are common early in training,
    are computed densely in about ``n k d^2`` operations.

    *Error.* Dropping the memberships ``q_i`` lowers a cluster's rate by at most
    ``delta = d / (n_l eps^2) * sum_i q_i |z_i|^2``, and the rate is at least
    ``log(1 + d / (n_l eps^2) * sum_i Pi_il |z_i|^2)``. Small memberships are dropped only while ``delta`` is at most
    ``tolerance`` times this lower bound, so the relative error of the value is at most ``tolerance``. With M the matrix
    inside the determinant and M_m the same for the remaining members, ``M_m <= M <= (1 + delta) M_m``: the inverses in
    the gradient have a relative error of at most ``delta``, about ``1e-5`` by default. The sizes ``n_l`` include the
    dropped memberships.

    *Gradient.* It is computed together with the value. There is no second derivative; requesting it raises. For dropped
    memberships, the gradient is an upper bound, exact for rows orthogonal to the cluster. With softmax memberships this
    does not matter, because the softmax multiplies it by a membership of about 1e-10 or less. Straight-through (hard)
    memberships, whose zeros need an exact gradient, are not supported.

    On a GPU, each call synchronises once, to read the cluster sizes.

    Parameters
    ----------
    Z : Tensor of shape (n, d)
        Embedding.
    Pi : Tensor of shape (n, k) or (heads, n, k)
        Memberships, of one or several cluster heads on one embedding.
    eps : float
        Distortion, above 0.
    tolerance : float
        Relative error allowed for dropping small memberships; 0 drops zeros only.

    Returns
    -------
    Rc : Tensor of shape () or (heads,)
        Differentiable with respect to ``Z`` and ``Pi``.

    Examples
    --------
    >>> Z, Pi = torch.eye(2), torch.eye(2)  # each cluster: one row, d / (n_l eps^2) = 8, det = 9, weight 1/2
    >>> round(cluster_coding_rate(Z, Pi, eps=0.5).exp().item(), 3)
    9.0
    """
    check_embedding(Z)
    check_memberships(Pi, len(Z))
    check_positive("eps", eps)
    if not 0 <= tolerance < 1:
        raise ValueError(f"tolerance is {tolerance}; pass a relative error of at least 0 and below 1.")
    Z, Pi = full_precision(Z, Pi)
    heads = Pi if Pi.ndim == 3 else Pi.unsqueeze(0)
    needs_gradient = torch.is_grad_enabled() and (Z.requires_grad or Pi.requires_grad)
    with without_autocast(Z):
        alpha = Z.shape[1] / eps**2
        values: Tensor = _ClusterCodingRate.apply(Z, heads, alpha, tolerance, needs_gradient)  # type: ignore[no-untyped-call]
    return values if Pi.ndim == 3 else values.squeeze(0)


class _ClusterCodingRate(torch.autograd.Function):
    """Rc with gradients computed in the forward pass, from the same Cholesky factors; the backward pass scales them."""

    @staticmethod
    def forward(ctx: Any, Z: Tensor, Pi: Tensor, alpha: float, tolerance: float, needs_gradient: bool) -> Tensor:
        values, *gradients = _value_and_gradients(Z, Pi, alpha, tolerance, needs_gradient)
        ctx.save_for_backward(*gradients)
        return values

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None, None, None]:
        refuse_second_derivative()
        dZ, dPi = ctx.saved_tensors
        grad = grad.view(-1, 1, 1)
        return (grad * dZ).sum(0), grad * dPi, None, None, None


def _value_and_gradients(
    Z: Tensor, Pi: Tensor, alpha: float, tolerance: float, needs_gradient: bool
) -> tuple[Tensor, ...]:
    """Return the rates (heads,) and, with ``needs_gradient``, their gradients (heads, n, d) and (heads, n, k)."""
    heads, n, k = Pi.shape
    d = Z.shape[1]
    weights = Pi.mT.reshape(heads * k, n)  # one row per cluster of each head
    sizes = weights.sum(-1)
    weights = weights / torch.where(sizes > 0, sizes, 1).unsqueeze(-1)
    share = sizes / n
    squared_norms = Z.square().sum(-1)
    mass = weights * squared_norms
    rates = torch.empty_like(share)
    out = None
    if needs_gradient:
        out = Derivatives(leverage=squared_norms.expand_as(weights).clone(), dZ=Z.new_zeros(heads, n, d))

    for m, group in _groups(_member_counts(mass, alpha, tolerance).cpu(), _max_members(n, d)):
        if m is None:
            for head in sorted(set((group // k).tolist())):
                clusters = group[group // k == head].to(Z.device)
                rates[clusters] = rates_by_rows(Z, clusters, head, weights[clusters], share[clusters], alpha, out)
        else:
            clusters = group.to(Z.device)
            rows = mass[clusters].topk(m).indices.flip(1)  # summed in ascending order to limit rounding error
            w = weights[clusters.unsqueeze(1), rows]
            rates[clusters] = rates_by_members(Z, clusters, clusters // k, rows, w, share[clusters], alpha, out)

    # Rc = sum_l n_l / n logdet(M_l)
    values = (share * rates).view(heads, k).sum(-1)
    if out is None:
        return (values,)
    mean = (weights * out.leverage).sum(-1, keepdim=True)  # subtracted because the weights of a cluster sum to one
    dPi = out.leverage.sub_(mean).mul_(alpha).add_(rates.unsqueeze(-1)).mul_((sizes > 0).unsqueeze(-1) / n)
    return values, out.dZ.mul_(2 * alpha), dPi.view(heads, k, n).mT


def _member_counts(mass: Tensor, alpha: float, tolerance: float) -> Tensor:
    """Number of members to keep in each cluster (clusters,), given ``mass (clusters, n) = w_i |z_i|^2``."""
    n = mass.shape[1]
    total = mass.sum(-1)
    budget = tolerance * torch.log1p(alpha * total) / alpha
    budget = budget.masked_fill(total.isinf(), torch.nan)  # non-finite input must give NaN: keep all rows
    counts = torch.full_like(total, n, dtype=torch.int64)
    for factor in (1, 8, 64):  # a threshold of budget / n always satisfies the budget; higher ones are checked
        members = mass > (budget * (factor / n)).unsqueeze(-1)
        within_budget = mass.masked_fill(members, 0).sum(-1) <= budget
        counts = torch.where(within_budget, members.sum(-1), counts)
    return counts


def _max_members(n: int, d: int) -> int:
    """Maximum number of members for which selecting the members is faster than using all n rows."""
    return min(n, max(d, n // 2))


def _groups(counts: Tensor, max_members: int) -> list[tuple[int | None, Tensor]]:
    """Group clusters for batched computation: pairs of members per cluster and indices of the clusters.

    Counts are rounded up to 1, 2, 3, 4, 6, 8, 12, ..., which gives few batches with little padding. Clusters with more
    than ``max_members`` members form the group None.
    """
    sizes = [1, 2, 3]
    while sizes[-1] < max_members:
        sizes.append(2 * sizes[-2])
    sizes = [size for size in sizes if size < max_members] + [max_members]
    group = torch.searchsorted(torch.tensor(sizes), counts)
    numbers = sorted(set(group.tolist()))
    return [(sizes[i] if i < len(sizes) else None, (group == i).nonzero().squeeze(1)) for i in numbers]
