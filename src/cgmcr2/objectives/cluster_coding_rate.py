"""The cluster-wise coding rate Rc: the nats it takes to describe Z when the clusters are known."""

from __future__ import annotations

from typing import Any, Literal

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


def cluster_coding_rate(
    Z: Tensor, Pi: Tensor, eps: float, *, tolerance: float = 1e-6, gradient: Literal["members", "all"] = "members"
) -> Tensor:
    r"""Coding rate of an embedding cluster by cluster (the paper's second term, to be minimised).

    .. math::
        R_c(Z, \Pi; \epsilon) = \sum_{l=1}^k \frac{n_l}{n}
            \log\det\left(I + \frac{d}{n_l \epsilon^2} Z^\top \mathrm{diag}(\Pi_l) Z\right),
        \qquad n_l = \sum_i \Pi_{il}

    An empty cluster (``n_l = 0``) contributes nothing, with gradient zero.

    *Cost.* It follows the memberships that matter: each cluster is computed from its members, and from the smaller of
    the d x d and the members x members determinant. Memberships as early in training, where every row belongs a little
    to every cluster, are computed densely, from n k d^2 operations.

    *Error.* Memberships ``q_i`` that are left out lower a cluster's rate by at most
    ``delta = d / (n_l eps^2) * sum_i q_i |z_i|^2``, and the rate is at least ``log(1 + d / (n_l eps^2) * sum_i Pi_il
    |z_i|^2)``. The smallest are left out as long as the former is below ``tolerance`` times the latter, so the value is
    within ``tolerance`` of the exact one, relative. As ``M_kept <= M <= (1 + delta) M_kept``, the inverses in the
    gradient are right to a relative ``delta``, about ``1e-5`` by default. The sizes ``n_l`` always count every row.

    *Gradient.* It is computed together with the value; a second derivative is not available, and asking for it raises.
    For memberships that were left out it is an upper bound, exact for rows orthogonal to the cluster: a softmax
    multiplies it by that membership of about 1e-10 or less. Where the gradient with respect to zeros counts, as with
    straight-through (hard) memberships, ask for ``gradient="all"``, which costs n more operations for each member and
    dimension.

    On a GPU each call waits for it once, to learn the sizes of the clusters.

    Args:
        Z: embedding (n, d).
        Pi: memberships (n, k), or (heads, n, k) for several cluster heads on one embedding.
        eps: distortion, above 0.
        tolerance: relative error allowed from leaving out small memberships; 0 leaves out zeros only.
        gradient: ``"members"``, or ``"all"`` for the exact gradient with respect to memberships left out as well.

    Returns:
        A scalar for ``Pi`` (n, k), or one value a head (heads,); differentiable with respect to ``Z`` and ``Pi``.

    >>> Z, Pi = torch.eye(2), torch.eye(2)  # each cluster: one row, c = 2 / (1 * 0.25) = 8, det = 9, weight 1/2
    >>> round(cluster_coding_rate(Z, Pi, eps=0.5).exp().item(), 3)
    9.0
    """
    check_embedding(Z)
    check_memberships(Pi, len(Z))
    check_positive("eps", eps)
    if not 0 <= tolerance < 1:
        raise ValueError(f"tolerance is {tolerance}; pass a relative error of at least 0 and below 1.")
    if gradient not in ("members", "all"):
        raise ValueError(f'gradient is {gradient!r}; choose "members" or "all".')
    Z, Pi = full_precision(Z, Pi)
    heads = Pi if Pi.ndim == 3 else Pi.unsqueeze(0)
    wanted = gradient if torch.is_grad_enabled() and (Z.requires_grad or Pi.requires_grad) else None
    with without_autocast(Z):
        alpha = Z.shape[1] / eps**2
        values: Tensor = _ClusterCodingRate.apply(Z, heads, alpha, tolerance, wanted)  # type: ignore[no-untyped-call]
    return values if Pi.ndim == 3 else values.squeeze(0)


class _ClusterCodingRate(torch.autograd.Function):
    """Value and gradient in the forward pass, while the factors are at hand; backward only scales the gradient."""

    @staticmethod
    def forward(ctx: Any, Z: Tensor, Pi: Tensor, alpha: float, tolerance: float, gradient: str | None) -> Tensor:
        values, *gradients = _value_and_gradients(Z, Pi, alpha, tolerance, gradient)
        ctx.save_for_backward(*gradients)
        return values

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None, None, None]:
        refuse_second_derivative()
        dZ, dPi = ctx.saved_tensors
        grad = grad.view(-1, 1, 1)
        return (grad * dZ).sum(0), grad * dPi, None, None, None


def _value_and_gradients(
    Z: Tensor, Pi: Tensor, alpha: float, tolerance: float, gradient: str | None
) -> tuple[Tensor, ...]:
    """The rates (heads,), and where wanted their gradients (heads, n, d) and (heads, n, k)."""
    heads, n, k = Pi.shape
    d = Z.shape[1]
    weights = Pi.mT.reshape(heads * k, n)  # a row for each cluster of each head
    sizes = weights.sum(-1)
    weights = weights / torch.where(sizes > 0, sizes, 1).unsqueeze(-1)
    share = sizes / n
    lengths = Z.square().sum(-1)
    mass = weights * lengths
    rates = torch.empty_like(share)
    out = None
    if gradient is not None:
        out = Derivatives(quad=lengths.expand_as(weights).clone(), pull=Z.new_zeros(heads, n, d))

    everywhere = gradient == "all"
    most = min(n, d if everywhere else max(d, n // 2))  # with more members than this, all rows at once are faster
    for m, clusters in _grouped(_members_that_matter(mass, alpha, tolerance).cpu(), most):
        if m is None:
            for head in sorted(set((clusters // k).tolist())):
                own = clusters[clusters // k == head].to(Z.device)
                rates[own] = rates_by_rows(Z, own, head, weights[own], share[own], alpha, out)
        else:
            own = clusters.to(Z.device)
            rows = mass[own].topk(m).indices.flip(1)  # the smallest first: after the large ones rounding would eat them
            members = weights[own.unsqueeze(1), rows]
            rates[own] = rates_by_members(Z, own, own // k, rows, members, share[own], alpha, out, everywhere)

    values = (share * rates).view(heads, k).sum(-1)
    if out is None:
        return (values,)
    inner = (weights * out.quad).sum(-1, keepdim=True)  # what one row gains the others lose: the weights sum to one
    dPi = out.quad.sub_(inner).mul_(alpha).add_(rates.unsqueeze(-1)).mul_((sizes > 0).unsqueeze(-1) / n)
    return values, out.pull.mul_(2 * alpha), dPi.view(heads, k, n).mT


def _members_that_matter(mass: Tensor, alpha: float, tolerance: float) -> Tensor:
    """How many memberships of each cluster (clusters,) must be kept, of ``mass = w_i |z_i|^2`` (clusters, n)."""
    n = mass.shape[1]
    total = mass.sum(-1)
    budget = tolerance * torch.log1p(alpha * total) / alpha
    budget = budget.masked_fill(total.isinf(), torch.nan)  # nothing fits: what is not finite must show
    counts = torch.full_like(total, n, dtype=torch.int64)
    for looser in (1, 8, 64):  # a threshold of budget / n always fits, a higher one if few rows come close to it
        kept = mass > (budget * (looser / n)).unsqueeze(-1)
        fits = mass.masked_fill(kept, 0).sum(-1) <= budget
        counts = torch.where(fits, kept.sum(-1), counts)
    return counts


def _grouped(counts: Tensor, most: int) -> list[tuple[int | None, Tensor]]:
    """Clusters that are computed together: the number of members to take, and which; ``None`` for more than ``most``.

    The numbers go up in steps of a half or a third, so that a few batches do for all and padding costs little.
    """
    sizes = [1, 2, 3]
    while sizes[-1] < most:
        sizes.append(2 * sizes[-2])
    sizes = [size for size in sizes if size < most] + [most]
    group = torch.searchsorted(torch.tensor(sizes), counts)
    present = sorted(set(group.tolist()))
    return [(sizes[i] if i < len(sizes) else None, (group == i).nonzero().squeeze(1)) for i in present]
