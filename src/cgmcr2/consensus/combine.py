"""Consensus of partitions by the hybrid bipartite graph formulation (HBGF; Fern and Brodley, 2004)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import torch
import torch.nn.functional as F
from scipy.sparse.linalg import LinearOperator
from torch import Tensor

from cgmcr2.graphs.spectral import dense_eigenpairs, largest_eigenpairs

from .kmeans import kmeans
from .partitions import Int64

DENSE_SIZE = 1_000  # the largest eigenproblem that is solved densely
GRAM_ROWS = 4_096  # rows that are held densely at once for the Gram matrix


def combine(
    partitions: Sequence[Int64], k: int, seed: int, weights: Tensor | None = None, *, dense_size: int = DENSE_SIZE
) -> Int64:
    """(n,) the consensus of partitions into at most k clusters each; ``weights (n,)`` weight the rows.

    The bipartite adjacency matrix ``B (n, M k)`` of rows and clusters is normalised by the degrees. Its k leading left
    singular vectors, with unit rows, are clustered by k-means.
    """
    n, M = len(partitions[0]), len(partitions)
    w = np.ones(n) if weights is None else weights.double().numpy()
    columns = np.stack([labels + i * k for i, labels in enumerate(partitions)], axis=1)  # (n, M)
    sizes = np.bincount(columns.ravel(), weights=w.repeat(M), minlength=M * k)
    entries = (np.sqrt(w)[:, None] / np.sqrt(sizes)[columns]).astype(np.float32)
    B = sp.csr_array((entries.ravel(), columns.ravel(), np.arange(n + 1) * M), shape=(n, M * k))
    m = min(n, M * k)  # solve the smaller of B B' and B' B
    if m <= max(dense_size, k + 1):
        gram = _gram(B) if m < n else (B @ B.T).toarray()
        values, V = dense_eigenpairs(gram.astype(np.float64))
    else:
        left, right = (B, sp.csr_array(B.T)) if m == n else (sp.csr_array(B.T), B)

        def product(x: npt.NDArray[Any]) -> npt.NDArray[Any]:
            return np.asarray(left @ (right @ x))

        operator = LinearOperator((m, m), matvec=product, matmat=product, dtype=np.float32)
        values, V = largest_eigenpairs(operator, k, seed, tol=1e-4)
    E = V[:, -k:] if m == n else B @ (V[:, -k:] / np.sqrt(np.maximum(values[-k:], 1e-9)))
    rows = F.normalize(torch.from_numpy(np.ascontiguousarray(E)).float(), dim=1)
    labels, inertia = kmeans(rows, k, 10, torch.Generator().manual_seed(seed), weights=weights)
    best: Int64 = labels[inertia.argmin()].numpy()
    return best


def _gram(B: sp.csr_array) -> npt.NDArray[np.float32]:
    """``B' B (c, c)`` by dense blocks of rows, faster than a sparse product while c is small."""
    blocks = (torch.from_numpy(B[start : start + GRAM_ROWS].toarray()) for start in range(0, B.shape[0], GRAM_ROWS))
    return sum((block.T @ block for block in blocks), torch.zeros(B.shape[1], B.shape[1])).numpy()
