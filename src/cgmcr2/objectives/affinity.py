"""Affinities: which rows of an embedding belong together, as a graph for the normalized cut.

Every function returns a symmetric, non-negative affinity with an empty diagonal, detached from the gradient: a graph,
so that ``D - A`` is positive semi-definite. Sparse ones come as :class:`Edges`, the others as dense (n, n) tensors.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from cgmcr2.objectives._checks import check_embedding, check_positive, full_precision, without_autocast

_BLOCK_ENTRIES = 2**22  # rows are compared with all others a block at a time: 16 MB of float32


class Edges(NamedTuple):
    """A sparse symmetric affinity, given by its edges.

    The affinity is ``A = (W + W') / 2`` where ``W`` has the listed weights and is zero elsewhere. So an undirected edge
    may be listed in one direction or in both, entries listed twice add up, and any list stands for a symmetric matrix.

    rows, cols: (e,) int64; weights: (e,), non-negative; n: number of rows of A.

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
        """The affinity as a dense (n, n) tensor."""
        half = self.weights.new_zeros(self.n * self.n)
        half.index_add_(0, self.rows * self.n + self.cols, self.weights / 2)
        half = half.view(self.n, self.n)
        return half + half.T

    def degrees(self) -> Tensor:
        """The row sums of the affinity (n,)."""
        sums = self.weights.new_zeros(self.n)
        sums.index_add_(0, self.rows, self.weights / 2)
        return sums.index_add_(0, self.cols, self.weights / 2)

    def product(self, X: Tensor) -> Tensor:
        """The affinity times ``X`` (n, c), from the edges alone."""
        places = torch.stack([torch.cat([self.rows, self.cols]), torch.cat([self.cols, self.rows])])
        halves = (self.weights / 2).to(X.dtype).repeat(2)
        A = torch.sparse_coo_tensor(places, halves, (self.n, self.n), check_invariants=False)
        return A @ X


def degrees(A: Tensor | Edges) -> Tensor:
    """Row sums (n,) of an affinity, dense or as edges.

    >>> degrees(torch.tensor([[0.0, 2.0], [2.0, 0.0]]))
    tensor([2., 2.])
    """
    return A.degrees() if isinstance(A, Edges) else A.sum(-1)


@torch.no_grad()
def cosine_topk(Z: Tensor, s: int) -> Edges:
    """The paper's affinity ``P_s(ZZ')``, made a graph: cosine similarity, the ``s`` largest entries of each row kept.

    A row's similarity to itself does not count among the ``s``; negative entries are dropped; ``A`` is the mean of what
    is kept and its transpose, so a pair that chose each other weighs twice as much as one where only one did.

    Args:
        Z: embedding (n, d); rows are normalised here.
        s: entries kept in each row; at most n - 1 are.

    Returns:
        ``n * min(s, n - 1)`` edges (dropped ones have weight 0, so that the number does not depend on the data).

    >>> Z = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.1, 1.0]])
    >>> cosine_topk(Z, s=1).dense().round(decimals=2)
    tensor([[0., 1., 0., 0.],
            [1., 0., 0., 0.],
            [0., 0., 0., 1.],
            [0., 0., 1., 0.]])
    """
    Z = _unit_rows(Z)
    return _top_edges(Z, s, lambda block: block.clamp_(min=0))


@torch.no_grad()
def cosine(Z: Tensor) -> Tensor:
    """Cosine similarity without post-processing (the ablation's "N/A"), only negative entries and the diagonal dropped.

    Args:
        Z: embedding (n, d); rows are normalised here.

    Returns:
        Dense (n, n).

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
    """Gaussian kernel ``exp(-||z_i - z_j||^2 / (2 sigma^2))`` of the normalised rows, the ablation's other affinity.

    Args:
        Z: embedding (n, d); rows are normalised here.
        s: keep the ``s`` largest entries of each row as :func:`cosine_topk` does; ``None`` keeps all.
        sigma: bandwidth, above 0.

    Returns:
        Dense (n, n), or :class:`Edges` where ``s`` is given.

    >>> gaussian(torch.tensor([[1.0, 0.0], [1.0, 0.0], [-1.0, 0.0]])).round(decimals=3)
    tensor([[0.0000, 1.0000, 0.1350],
            [1.0000, 0.0000, 0.1350],
            [0.1350, 0.1350, 0.0000]])
    """
    check_positive("sigma", sigma)
    Z = _unit_rows(Z)

    def kernel(similarity: Tensor) -> Tensor:  # of unit rows: ||a - b||^2 = 2 - 2 a'b
        return similarity.sub_(1).clamp_(max=0).div_(sigma**2).exp_()

    if s is not None:
        return _top_edges(Z, s, kernel)
    with without_autocast(Z):
        return _symmetric(kernel(Z @ Z.T))


@torch.no_grad()
def doubly_stochastic(Z: Tensor, temperature: float = 0.175, iterations: int = 30) -> Tensor:
    """Cosine similarity projected onto the doubly stochastic matrices: rows and columns sum to 1.

    The paper states the projection in the Frobenius norm; MLC and the released code compute the entropic one instead,
    by Sinkhorn's iteration, and so do we: the ``A`` nearest to ``K = exp(ZZ' / temperature)`` (empty diagonal) in
    relative entropy, ``A = diag(u) K diag(u)``. One scaling vector on both sides keeps it symmetric at every iteration.

    Args:
        Z: embedding (n, d); rows are normalised here.
        temperature: the released code's 0.175; smaller is sparser.
        iterations: of Sinkhorn; the row sums are within about 1e-6 of 1 after 30.

    Returns:
        Dense (n, n).

    >>> doubly_stochastic(torch.eye(3))
    tensor([[0.0000, 0.5000, 0.5000],
            [0.5000, 0.0000, 0.5000],
            [0.5000, 0.5000, 0.0000]])
    """
    check_positive("temperature", temperature)
    Z = _unit_rows(Z)
    with without_autocast(Z):
        K = _symmetric(Z @ Z.T).sub_(1).div_(temperature).exp_().fill_diagonal_(0)  # in (0, 1]: nothing overflows
        tiny = torch.finfo(K.dtype).tiny
        u = K.sum(-1).clamp(min=tiny).rsqrt()
        for _ in range(iterations):
            u = (u / (K @ u).clamp(min=tiny)).sqrt()  # the geometric mean of two half steps: no oscillation
        return torch.where(K > 0, K * torch.outer(u, u), 0)  # a row without neighbours stays empty


def _unit_rows(Z: Tensor) -> Tensor:
    check_embedding(Z)
    (Z,) = full_precision(Z.detach())
    return functional.normalize(Z, dim=-1)


def _symmetric(A: Tensor) -> Tensor:
    """Both halves made equal (a product's may differ in the last bit) and the diagonal emptied."""
    return A.add(A.T).div_(2).fill_diagonal_(0)


def _top_edges(Z: Tensor, s: int, weight: Callable[[Tensor], Tensor]) -> Edges:
    """The ``s`` largest similarities of each row to others, made weights; a block of rows is compared at a time."""
    if s < 1:
        raise ValueError(f"s is {s}; keep at least 1 entry in each row.")
    n = len(Z)
    s = min(s, n - 1)
    block = min(n, max(1, _BLOCK_ENTRIES // n))
    values, cols = Z.new_empty(n, s), torch.empty(n, s, dtype=torch.int64, device=Z.device)
    room = Z.new_empty(block, n)  # one for all blocks: of many the allocator keeps nearly n x n entries in the end
    with without_autocast(Z):
        for start in range(0, n, block):
            part = slice(start, start + block)
            similarity = torch.mm(Z[part], Z.T, out=room[: len(Z[part])])  # (block, d) x (d, n) -> (block, n)
            similarity.diagonal(start).fill_(-torch.inf)  # never one's own neighbour
            values[part], cols[part] = similarity.topk(s, dim=-1, sorted=False)
    rows = torch.arange(n, device=Z.device).repeat_interleave(s)
    return Edges(rows, cols.flatten(), weight(values.flatten()), n)
