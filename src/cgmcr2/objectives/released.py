"""The objective as the authors' released code computes it, for comparison with the paper's."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from cgmcr2.objectives._checks import (
    check_embedding,
    check_memberships,
    check_positive,
    full_precision,
    without_autocast,
)
from cgmcr2.objectives.affinity import Edges
from cgmcr2.objectives.cgmcr2 import Terms
from cgmcr2.objectives.cluster_coding_rate import cluster_coding_rate
from cgmcr2.objectives.coding_rate import coding_rate


class ReleasedObjective(nn.Module):
    """The objective of the authors' released code, with the interface of :class:`CgMCR2Objective`.

    Differences from the paper:

    - ``eps`` is the paper's eps squared, and both rates have a factor 1/2.
    - The penalty is ``gamma * ||H'DH - I||_F / k``, and 1e-6 is added to every volume.
    - The affinity is the inner product of the *un-normalised* embedding after a learnable soft threshold, times 1/k.
      Each row keeps its ``s`` largest entries (and entries tied with the smallest of them) and is scaled to unit
      length. The affinity has self-loops and negative entries and is not symmetric; degrees are column sums. The
      cut's gradient flows through the affinity into the embedding. If a volume is negative, the cut is NaN, as in the
      released code.

    The soft threshold is a parameter of this module (``bias``, initially 0): pass it to the optimiser together with the
    network's parameters. The released code also adds 1e-8 to every cluster size, which has no effect in float32 unless
    a cluster is empty; an empty cluster contributes 0 in both.

    Parameters
    ----------
    eps : float
        The released code's ``eps`` (default there: 0.5), which is the square of the paper's.
    gamma : float
        Weight of the penalty.
    s : int
        Entries kept in each row (``nz`` in the released code).

    Examples
    --------
    >>> terms = ReleasedObjective(eps=0.5, gamma=100.0, s=1)(torch.eye(2), torch.eye(2))
    >>> [round(value, 3) for value in (terms.R.item(), terms.Rc.item(), terms.cut.item())]
    [1.099, 0.805, 0.0]
    """

    def __init__(self, eps: float, gamma: float, s: int) -> None:
        super().__init__()
        check_positive("eps", eps)
        if s < 1:
            raise ValueError(f"s is {s}; keep at least 1 entry in each row.")
        self.eps = eps
        self.gamma = gamma
        self.s = s
        self.bias = nn.Parameter(torch.zeros(1))

    def forward(
        self,
        Z: Tensor,
        Pi: Tensor,
        *,
        use_rate: bool = True,
        use_cluster_rate: bool = True,
        use_cut: bool = True,
        A: Tensor | Edges | None = None,
    ) -> Terms:
        """Compute the terms for a batch.

        Parameters
        ----------
        Z : Tensor of shape (n, d)
            Embedding, *not* normalised: the affinity depends on the lengths of the rows. The rates normalise it.
        Pi : Tensor of shape (n, k) or (heads, n, k)
            Memberships.
        use_rate, use_cluster_rate, use_cut : bool
            Whether to compute ``R``, ``Rc`` and the cut; a disabled term is 0.
        A : Tensor of shape (n, n) or Edges, optional
            Affinity to use instead of the one computed from ``Z``.

        Returns
        -------
        terms : Terms
        """
        check_embedding(Z)
        check_memberships(Pi, len(Z))
        Z, Pi = full_precision(Z, Pi)
        unit = functional.normalize(Z, dim=-1)
        eps = math.sqrt(self.eps)
        zero = Z.new_zeros(Pi.shape[:-2])
        R = coding_rate(unit, eps) / 2 if use_rate else Z.new_zeros(())
        Rc = cluster_coding_rate(unit, Pi, eps) / 2 if use_cluster_rate else zero
        cut, penalty = zero, zero
        if use_cut:
            graph = self.graph(Z, Pi.shape[-1]) if A is None else A
            cut, penalty = self._cut(Pi, graph.dense() if isinstance(graph, Edges) else graph)
        return Terms(-R + Rc + cut + penalty, R, Rc, cut, penalty)

    def graph(self, Z: Tensor, k: int) -> Tensor:
        """Return the affinity (n, n) of a batch ``Z`` (n, d), not normalised, for ``k`` clusters; differentiable."""
        with without_autocast(Z):
            similarity = Z @ Z.T
            shrunk = similarity.sign() * functional.relu(similarity.abs() - self.bias) / k
            threshold = shrunk.topk(min(self.s, len(Z)), dim=-1).values[:, -1:]
            return functional.normalize(torch.where(shrunk >= threshold, shrunk, 0), dim=-1)

    def _cut(self, Pi: Tensor, A: Tensor) -> tuple[Tensor, Tensor]:
        k = Pi.shape[-1]
        with without_autocast(Pi):
            deg = A.sum(0)
            weighted = deg.unsqueeze(-1) * Pi
            volumes = weighted.sum(-2) + 1e-6
            H = Pi * volumes.rsqrt().unsqueeze(-2)
            inner = H.mT @ (deg.unsqueeze(-1) * H)
            cut = inner.diagonal(dim1=-2, dim2=-1).sum(-1) - (H * (A @ H)).sum((-2, -1))
            residual = inner - torch.eye(k, dtype=Pi.dtype, device=Pi.device)
            penalty = torch.linalg.vector_norm(residual, dim=(-2, -1)) * (self.gamma / k)
        return cut, penalty

    def extra_repr(self) -> str:
        return f"eps={self.eps}, gamma={self.gamma}, s={self.s}"
