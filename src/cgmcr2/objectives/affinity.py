"""Affinities of an embedding: the graphs that the normalized cut partitions.

Every affinity is symmetric and non-negative, has a zero diagonal and no gradient, so ``D - A`` is the Laplacian of a
graph. Sparse affinities are :class:`Edges`, the others dense (n, n) tensors.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from cgmcr2.graphs.knn import top_similar
from cgmcr2.objectives._checks import check_embedding, check_positive, full_precision, without_autocast


class Edges(NamedTuple):
    """A sparse symmetric affinity, stored as a list of edges.

    The affinity is ``A = (W + W') / 2``, where ``W`` contains the listed weights and is zero elsewhere; duplicate
    entries are summed. An undirected edge may be listed in one direction or in both.

    Attributes
    ----------
    rows, cols : int64 Tensor of shape (e,)
        Ends of the edges.
    weights : Tensor of shape (e,)
        Non-negative weights.
    n : int
        Number of rows of A.

    Examples
    --------

    >>> Edges(torch.tensor([0, 1]), torch.tensor([1, 2]), torch.tensor([1.0, 0.5]), 3).dense()
    tensor([[0.0000, 0.5000, 0.0000],
            [0.5000, 0.0000, 0.2500],
            [0.0000, 0.2500, 0.0000]])
    """

    rows: Tensor
    cols: Tensor
    weights: Tensor
    n: int

    def dense(self) -> Tensor:
        """Return the affinity as a dense (n, n) tensor."""
        half = self.weights.new_zeros(self.n * self.n)
        half.index_add_(0, self.rows * self.n + self.cols, self.weights / 2)
        half = half.view(self.n, self.n)
        return half + half.T

    def degrees(self) -> Tensor:
        """Return the row sums of the affinity (n,)."""
        sums = self.weights.new_zeros(self.n)
        sums.index_add_(0, self.rows, self.weights / 2)
        return sums.index_add_(0, self.cols, self.weights / 2)

    def product(self, X: Tensor) -> Tensor:
        """Return the product of the affinity with ``X`` (n, c), by sparse multiplication."""
        indices = torch.stack([torch.cat([self.rows, self.cols]), torch.cat([self.cols, self.rows])])
        values = (self.weights / 2).to(X.dtype).repeat(2)
        A = torch.sparse_coo_tensor(indices, values, (self.n, self.n), check_invariants=False)
        return A @ X


def degrees(A: Tensor | Edges) -> Tensor:
    """Row sums (n,) of an affinity.

    >>> degrees(torch.tensor([[0.0, 2.0], [2.0, 0.0]]))
    tensor([2., 2.])
    """
    return A.degrees() if isinstance(A, Edges) else A.sum(-1)


@torch.no_grad()
def cosine_topk(Z: Tensor, s: int) -> Edges:
    """The paper's affinity ``P_s(ZZ')``: the ``s`` largest cosine similarities of each row, made symmetric.

    Self-similarities are excluded and negative entries are set to 0. ``A`` is the mean of the result and its transpose,
    so an edge between mutual neighbours has twice the weight.

    Parameters
    ----------
    Z : Tensor of shape (n, d)
        Embedding; rows are normalised here.
    s : int
        Entries kept in each row; at most n - 1 are kept.

    Returns
    -------
    A : Edges
        ``n * min(s, n - 1)`` edges; negative entries are listed with weight 0.

    Examples
    --------
    >>> Z = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.1, 1.0]])
    >>> cosine_topk(Z, s=1).dense().round(decimals=2)
    tensor([[0., 1., 0., 0.],
            [1., 0., 0., 0.],
            [0., 0., 0., 1.],
            [0., 0., 1., 0.]])
    """
    return _top_edges(_unit_rows(Z), s, lambda similarity: similarity.clamp_(min=0))


@torch.no_grad()
def cosine(Z: Tensor) -> Tensor:
    """Cosine similarity without post-processing (the ablation's "N/A"); negative entries and the diagonal are 0.

    Parameters
    ----------
    Z : Tensor of shape (n, d)
        Embedding; rows are normalised here.

    Returns
    -------
    A : Tensor of shape (n, n)

    Examples
    --------
    >>> cosine(torch.tensor([[1.0, 0.0], [0.6, 0.8], [-1.0, 0.0]]))
    tensor([[0.0000, 0.6000, 0.0000],
            [0.6000, 0.0000, 0.0000],
            [0.0000, 0.0000, 0.0000]])
    """
    Z = _unit_rows(Z)
    with without_autocast(Z):
        return _symmetric((Z @ Z.T).clamp_(min=0))


@torch.no_grad()
def gaussian(Z: Tensor, s: int | None = None, sigma: float = 1.0) -> Tensor | Edges:
    """Gaussian kernel ``exp(-||z_i - z_j||^2 / (2 sigma^2))`` of the normalised rows (an affinity of the ablation).

    Parameters
    ----------
    Z : Tensor of shape (n, d)
        Embedding; rows are normalised here.
    s : int, optional
        Entries kept in each row, as in :func:`cosine_topk`; None keeps all.
    sigma : float
        Bandwidth, above 0.

    Returns
    -------
    A : Tensor of shape (n, n) or Edges
        Dense if ``s`` is None, else sparse.

    Examples
    --------
    >>> gaussian(torch.tensor([[1.0, 0.0], [1.0, 0.0], [-1.0, 0.0]])).round(decimals=3)
    tensor([[0.0000, 1.0000, 0.1350],
            [1.0000, 0.0000, 0.1350],
            [0.1350, 0.1350, 0.0000]])
    """
    check_positive("sigma", sigma)
    Z = _unit_rows(Z)

    def kernel(similarity: Tensor) -> Tensor:  # for unit rows ||a - b||^2 = 2 - 2 a'b
        return similarity.sub_(1).clamp_(max=0).div_(sigma**2).exp_()

    if s is not None:
        return _top_edges(Z, s, kernel)
    with without_autocast(Z):
        return _symmetric(kernel(Z @ Z.T))


@torch.no_grad()
def doubly_stochastic(Z: Tensor, temperature: float = 0.175, iterations: int = 30) -> Tensor:
    """Projection of the cosine similarity onto the doubly stochastic matrices: rows and columns sum to 1.

    The paper defines the projection in the Frobenius norm. Like MLC and the released code, this function computes the
    entropic projection instead, by Sinkhorn's algorithm: the matrix ``A = diag(u) K diag(u)`` closest in relative
    entropy to ``K = exp(ZZ' / temperature)`` with zero diagonal. A single scaling vector for rows and columns keeps
    ``A`` symmetric in every iteration.

    Parameters
    ----------
    Z : Tensor of shape (n, d)
        Embedding; rows are normalised here.
    temperature : float
        Smaller values give a sparser affinity; the released code uses 0.175.
    iterations : int
        Sinkhorn iterations; 30 give row sums within about 1e-6 of 1.

    Returns
    -------
    A : Tensor of shape (n, n)

    Examples
    --------
    >>> doubly_stochastic(torch.eye(3))
    tensor([[0.0000, 0.5000, 0.5000],
            [0.5000, 0.0000, 0.5000],
            [0.5000, 0.5000, 0.0000]])
    """
    check_positive("temperature", temperature)
    Z = _unit_rows(Z)
    with without_autocast(Z):
        K = _symmetric(Z @ Z.T).sub_(1).div_(temperature).exp_().fill_diagonal_(0)  # in (0, 1]: cannot overflow
        tiny = torch.finfo(K.dtype).tiny
        u = K.sum(-1).clamp(min=tiny).rsqrt()
        for _ in range(iterations):
            # geometric mean of the old and the new scaling, to prevent oscillation
            u = (u / (K @ u).clamp(min=tiny)).sqrt()
        return torch.where(K > 0, K * torch.outer(u, u), 0)  # isolated rows stay zero


def _unit_rows(Z: Tensor) -> Tensor:
    """Check, detach and normalise the rows of ``Z``, in at least float32."""
    check_embedding(Z)
    (Z,) = full_precision(Z.detach())
    return functional.normalize(Z, dim=-1)


def _symmetric(A: Tensor) -> Tensor:
    """Return ``A`` without rounding asymmetry and with a zero diagonal."""
    return A.add(A.T).div_(2).fill_diagonal_(0)


def _top_edges(Z: Tensor, s: int, weight: Callable[[Tensor], Tensor]) -> Edges:
    """Edges from each row of ``Z (n, d)`` to its ``s`` most similar rows, with weights ``weight(similarity)``."""
    values, cols = top_similar(Z, s)
    rows = torch.arange(len(Z), device=Z.device).repeat_interleave(cols.shape[1])
    return Edges(rows, cols.flatten(), weight(values.flatten()), len(Z))
