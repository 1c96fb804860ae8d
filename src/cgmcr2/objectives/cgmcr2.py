"""The objective of CgMCR²: both coding rates and the normalized cut."""

from __future__ import annotations

from typing import Literal, NamedTuple

from torch import Tensor, nn
from torch.nn import functional

from cgmcr2.objectives._checks import check_choice, check_embedding, check_positive, full_precision
from cgmcr2.objectives.affinity import Edges, cosine, cosine_topk, doubly_stochastic, gaussian
from cgmcr2.objectives.cluster_coding_rate import cluster_coding_rate
from cgmcr2.objectives.coding_rate import coding_rate
from cgmcr2.objectives.normalized_cut import Penalty, cut_penalty, cut_terms

Affinity = Literal["cosine_topk", "gaussian", "doubly_stochastic", "cosine"]


class Terms(NamedTuple):
    """The objective and its terms: ``total = -R + Rc + cut + penalty``; disabled terms are 0.

    ``R`` is a scalar. The others are scalars for ``Pi (n, k)``, and have shape (heads,) for ``Pi (heads, n, k)``.
    ``penalty`` includes its weight gamma.
    """

    total: Tensor
    R: Tensor
    Rc: Tensor
    cut: Tensor
    penalty: Tensor


class CgMCR2Objective(nn.Module):
    """The paper's objective, to be minimised: ``-R(Z) + Rc(Z, Pi) + Lncut(Pi; A)``; the warm-up omits ``Rc``.

    Parameters
    ----------
    eps : float
        Distortion of both coding rates.
    gamma : float
        Weight of the cut's penalty.
    s : int or None
        Entries of the affinity kept in each row; None keeps all (Gaussian kernel only).
    affinity : {"cosine_topk", "gaussian", "doubly_stochastic", "cosine"}
        Affinity ``A`` of the batch: the paper's is ``"cosine_topk"``; ``"cosine"`` has no post-processing.
    penalty : {"squared", "norm"}
        ``"squared"`` (the paper's) or ``"norm"`` (the released code's); see :func:`normalized_cut`.

    Examples
    --------
    >>> import torch
    >>> terms = CgMCR2Objective(eps=0.5, gamma=5.0, s=1)(torch.eye(2), torch.eye(2))
    >>> [round(value, 3) for value in (terms.R.item(), terms.Rc.item(), terms.cut.item())]
    [3.219, 2.197, 0.0]
    """

    def __init__(
        self,
        eps: float,
        gamma: float,
        s: int | None,
        *,
        affinity: Affinity = "cosine_topk",
        penalty: Penalty = "squared",
    ) -> None:
        super().__init__()
        check_positive("eps", eps)
        check_choice("affinity", affinity, Affinity)
        check_choice("penalty", penalty, Penalty)
        if affinity == "cosine_topk" and s is None:
            raise ValueError('affinity "cosine_topk" needs s, the number of entries kept in each row.')
        self.eps = eps
        self.gamma = gamma
        self.s = s
        self.affinity: Affinity = affinity
        self.penalty: Penalty = penalty

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
            Embedding; rows are normalised here.
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
        (Z,) = full_precision(Z)
        Z = functional.normalize(Z, dim=-1)
        zero = Z.new_zeros(Pi.shape[:-2])
        R = coding_rate(Z, self.eps) if use_rate else Z.new_zeros(())
        Rc = cluster_coding_rate(Z, Pi, self.eps) if use_cluster_rate else zero
        cut, penalty = zero, zero
        if use_cut:
            cut, residual = cut_terms(Pi, self.graph(Z) if A is None else A)
            penalty = cut_penalty(residual, self.gamma, Pi.shape[-1], self.penalty)
        return Terms(-R + Rc + cut + penalty, R, Rc, cut, penalty)

    def graph(self, Z: Tensor) -> Tensor | Edges:
        """Return the affinity of a batch ``Z`` (n, d), without gradient."""
        if self.affinity == "cosine_topk":
            assert self.s is not None
            return cosine_topk(Z, self.s)
        if self.affinity == "gaussian":
            return gaussian(Z, self.s)
        return doubly_stochastic(Z) if self.affinity == "doubly_stochastic" else cosine(Z)

    def extra_repr(self) -> str:
        return f"eps={self.eps}, gamma={self.gamma}, s={self.s}, affinity={self.affinity!r}, penalty={self.penalty!r}"
