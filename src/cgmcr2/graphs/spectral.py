"""Spectral clustering of a sparse neighbour graph: no array of size n x n, whatever n."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import LinearOperator, eigsh

Float64 = npt.NDArray[np.float64]

BLOCK = 2048  # rows whose similarities to all others are held at once


def cosine_graph(Z: npt.NDArray[np.floating[Any]], s: int) -> sp.csr_array:
    """(n, n) sparse ``P_s(ZZ')``: the s largest cosine similarities of each row, negatives and self-loops dropped,
    symmetrised by the mean of both directions.

    >>> cosine_graph(np.eye(3) + 1, 1).nnz
    4
    """
    Z = np.asarray(Z, dtype=np.float32)
    Z = Z / np.maximum(np.linalg.norm(Z, axis=1, keepdims=True), 1e-12)
    n, s = len(Z), min(s, len(Z) - 1)
    columns, values = np.empty((n, s), dtype=np.int64), np.empty((n, s), dtype=np.float32)
    for start in range(0, n, BLOCK):
        similarity = Z[start : start + BLOCK] @ Z.T
        rows = np.arange(len(similarity))
        similarity[rows, start + rows] = -np.inf
        kept = np.argpartition(similarity, -s, axis=1)[:, -s:]
        columns[start : start + BLOCK] = kept
        values[start : start + BLOCK] = np.take_along_axis(similarity, kept, axis=1)
    A = sp.csr_array((values.clip(min=0).ravel(), columns.ravel(), np.arange(n + 1) * s), shape=(n, n))
    A = sp.csr_array((A + A.T) / 2)
    A.eliminate_zeros()
    return A


def spectral_embedding(A: sp.csr_array, k: int, seed: int = 0) -> Float64:
    """(n, k) the leading eigenvectors of ``D^(-1/2) A D^(-1/2)``, rows scaled to unit length (Ng, Jordan and Weiss)."""
    vectors = leading_eigenvectors(A, k, seed)[1]
    return np.asarray(vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12))


def leading_eigenvectors(A: sp.csr_array, k: int, seed: int) -> tuple[Float64, Float64, Float64]:
    """The k largest eigenvalues (k,) of ``D^(-1/2) A D^(-1/2)``, descending; their vectors (n, k); ``deg^(-1/2)``."""
    n = A.shape[0]
    degrees = np.asarray(A.sum(axis=1), dtype=np.float64).ravel()
    scale = 1 / np.sqrt(np.maximum(degrees, 1e-12))
    M = sp.csr_array(sp.diags_array(scale) @ A @ sp.diags_array(scale)).astype(np.float64)
    if k >= n - 1 or n <= 500:  # Lanczos needs room; a small matrix needs no Lanczos
        values, vectors = np.linalg.eigh(M.toarray())
        return values[::-1][:k], vectors[:, ::-1][:, :k], scale
    # Each component of the graph has the eigenvalue 1, and Lanczos misses eigenvalues that are there several times: so
    # take these, the largest components first, and look for the others in what is orthogonal to them.
    count, component = connected_components(A, directed=False)
    volumes = np.bincount(component, weights=degrees, minlength=count)
    first = np.argsort(-volumes, kind="stable")[:k]
    known = np.sqrt(degrees)[:, None] * (component[:, None] == first) / np.sqrt(np.maximum(volumes[first], 1e-12))
    rest = k - len(first)
    if not rest:
        return np.ones(k), known, scale
    start = np.random.default_rng(seed).standard_normal(n)
    operator = LinearOperator((n, n), matvec=lambda v: M @ v - known @ (known.T @ v), dtype=np.float64)
    values, vectors = eigsh(operator, k=rest, which="LA", v0=start, tol=1e-6, ncv=min(n, max(2 * rest + 1, 40)))
    order = np.argsort(-values, kind="stable")
    return np.append(np.ones(len(first)), values[order]), np.hstack([known, vectors[:, order]]), scale


def spectral_clustering(
    Z: npt.NDArray[np.floating[Any]], n_clusters: int, s: int, *, seed: int = 0
) -> npt.NDArray[np.int64]:
    """(n,) labels by normalized cut of the s-nearest-neighbour cosine graph of ``Z (n, d)``.

    >>> Z = np.repeat(np.eye(3), 10, axis=0) + 0.01 * np.random.default_rng(0).standard_normal((30, 3))
    >>> labels = spectral_clustering(Z, 3, 5)
    >>> [len(set(labels[i : i + 10])) for i in (0, 10, 20)]
    [1, 1, 1]
    """
    from sklearn.cluster import KMeans

    vectors = spectral_embedding(cosine_graph(Z, s), n_clusters, seed)
    return KMeans(n_clusters, n_init=10, random_state=seed).fit(vectors).labels_.astype(np.int64)  # type: ignore[no-any-return]
