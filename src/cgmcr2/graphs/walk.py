"""Random walks over neighbour graphs, and features smoothed by them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import torch
import torch.nn.functional as F
from torch import Tensor

Int64 = npt.NDArray[np.int64]


def neighbour_matrix(neighbours: Int64, weights: npt.NDArray[np.float32] | None = None) -> sp.csr_array:
    """(n, n) directed graph with an edge from each row to its ``neighbours (n, m)``, of ``weights (n, m)`` or 1."""
    n, m = neighbours.shape
    values = np.ones(n * m, dtype=np.float32) if weights is None else weights.ravel()
    return sp.csr_array((values, neighbours.ravel(), np.arange(n + 1) * m), shape=(n, n))


def lazy_walk(neighbours: Int64) -> sp.csr_array:
    """(n, n) row-stochastic walk over the undirected graph of ``neighbours (n, m)``; staying has weight 2.

    >>> lazy_walk(np.array([[1], [0]])).toarray().tolist()
    [[0.5, 0.5], [0.5, 0.5]]
    """
    W = neighbour_matrix(neighbours)
    W = W + W.T + 2 * sp.eye_array(W.shape[0], dtype=np.float32)
    degrees: npt.NDArray[np.float32] = np.asarray(W.sum(axis=1))
    return sp.csr_array(sp.diags_array(1 / degrees) @ W).astype(np.float32)


def jaccard_walk(neighbours: Int64, degree: int) -> sp.csr_array:
    """(n, n) row-stochastic walk over the undirected graph of the ``degree`` nearest of ``neighbours (n, m)``.

    The weight of an edge is the Jaccard index of the two rows' m + 1 nearest rows, themselves included.

    >>> jaccard_walk(np.array([[1], [0]]), 1).toarray().tolist()
    [[0.0, 1.0], [1.0, 0.0]]
    """
    n, m = neighbours.shape
    hoods = np.concatenate([np.arange(n)[:, None], neighbours], axis=1)  # (n, m + 1)
    nearest = neighbours[:, :degree]
    shared = np.empty(nearest.shape, dtype=np.float32)
    for i, J in enumerate(nearest.T):
        shared[:, i] = sum((hoods == hoods[J, j, None]).any(1) for j in range(m + 1))
    W = neighbour_matrix(nearest, shared / (2 * (m + 1) - shared))
    W = W + W.T
    degrees: npt.NDArray[np.float32] = np.asarray(W.sum(axis=1))
    return sp.csr_array(sp.diags_array(1 / degrees) @ W).astype(np.float32)


def walk_features(walk: sp.csr_array, X: Tensor, steps: Sequence[int]) -> Iterator[Tensor]:
    """Yield ``walk^t X (n, p)`` for each number of steps t, in ascending order."""
    offsets, columns, weights = (torch.from_numpy(part) for part in (walk.indptr[:-1], walk.indices, walk.data))
    for step in range(1, max(steps) + 1):
        # embedding_bag computes this sparse product five times as fast as torch.sparse and scipy do
        X = F.embedding_bag(columns, X, offsets, mode="sum", per_sample_weights=weights)
        if step in steps:
            yield X
