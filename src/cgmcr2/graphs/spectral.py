"""Spectral clustering of sparse neighbour graphs. No n x n array exists, whatever n."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import torch
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import ArpackError, LinearOperator, eigsh, lobpcg

from cgmcr2._arrays import unit_rows
from cgmcr2._threads import blas_threads

from .knn import top_similar
from .walk import neighbour_matrix

Float64 = npt.NDArray[np.float64]

DENSE_ROWS = 500  # up to this size a dense eigendecomposition is faster than Lanczos


def cosine_graph(Z: npt.NDArray[np.floating[Any]], s: int) -> sp.csr_array:
    """(n, n) sparse ``P_s(ZZ')``: the s largest cosine similarities of each row, as an undirected graph.

    Negative entries and self-loops are dropped; the graph is the mean of both directions.

    >>> cosine_graph(np.eye(3) + 1, 1).nnz
    4
    """
    unit = torch.from_numpy(unit_rows(np.asarray(Z, dtype=np.float32)))
    values, columns = top_similar(unit, min(s, len(unit) - 1))
    A = neighbour_matrix(columns.numpy(), values.clamp(min=0).numpy())
    A = sp.csr_array((A + A.T) / 2)
    A.eliminate_zeros()
    return A


def spectral_embedding(A: sp.csr_array, k: int, seed: int = 0) -> Float64:
    """(n, k) leading eigenvectors of ``D^(-1/2) A D^(-1/2)``, rows scaled to unit length (Ng, Jordan and Weiss)."""
    return unit_rows(leading_eigenvectors(A, k, seed)[1])


def leading_eigenvectors(
    A: sp.csr_array | Float64, k: int, seed: int, *, tol: float = 1e-6, dense_rows: int = DENSE_ROWS
) -> tuple[Float64, Float64, Float64]:
    """The k largest eigenvalues of ``D^(-1/2) A D^(-1/2)``, in descending order, with their eigenvectors.

    ``A (n, n)`` is a symmetric, non-negative graph, sparse or dense.

    Returns:
        Eigenvalues (k,), eigenvectors (n, k) and ``deg^(-1/2)`` (n,).
    """
    n = int(A.shape[0])
    degrees = np.asarray(A.sum(axis=1), dtype=np.float64).ravel()
    scale = 1 / np.sqrt(np.maximum(degrees, 1e-12))
    M = _scaled(A, scale)
    if k >= n - 1 or n <= dense_rows:  # Lanczos needs k < n - 1
        values, vectors = dense_eigenpairs(M if isinstance(M, np.ndarray) else M.toarray())
        return values[::-1][:k], vectors[:, ::-1][:, :k], scale
    # Lanczos misses repeated eigenvalues, and each component of the graph has the eigenvalue 1. So the components'
    # eigenvectors are written down, largest first, and Lanczos runs in their orthogonal complement.
    count, component = connected_components(sp.csr_array(A), directed=False)
    volumes = np.bincount(component, weights=degrees, minlength=count)
    largest = np.argsort(-volumes, kind="stable")[:k]
    largest = largest[volumes[largest] > 0]  # an isolated row has the eigenvalue 0
    indicators = np.sqrt(degrees)[:, None] * (component[:, None] == largest)
    indicators /= np.sqrt(np.maximum(volumes[largest], 1e-12))
    rest = k - len(largest)
    if not rest:
        return np.ones(k), indicators, scale

    def deflated(V: Float64) -> Float64:
        return np.asarray(M @ V - indicators @ (indicators.T @ V))

    operator = LinearOperator((n, n), matvec=deflated, matmat=deflated, dtype=np.float64)
    values, vectors = largest_eigenpairs(operator, rest, seed, tol=tol, ncv=min(n, max(2 * rest + 1, 40)))
    order = np.argsort(-values, kind="stable")
    return np.append(np.ones(len(largest)), values[order]), np.hstack([indicators, vectors[:, order]]), scale


def largest_eigenpairs(
    operator: LinearOperator, k: int, seed: int, *, tol: float, ncv: int | None = None, dense_rows: int = 4_000
) -> tuple[Float64, Float64]:
    """The k largest eigenvalues (k,) of a symmetric operator (n, n), ascending, and their eigenvectors (n, k).

    Lanczos may fail on repeated eigenvalues (``ArpackError``). Then it starts again from another vector in a larger
    Krylov space, and after that the problem is solved densely, or by LOBPCG if n is above ``dense_rows``.

    >>> D = np.diag(np.arange(50.0))
    >>> operator = LinearOperator((50, 50), matvec=lambda v: D @ v, matmat=lambda V: D @ V, dtype=np.float64)
    >>> largest_eigenpairs(operator, 2, 0, tol=1e-8)[0].round(4).tolist()
    [48.0, 49.0]
    """
    n = int(operator.shape[0])
    for stream, size in ((seed, ncv), ([seed, 1], min(n, max(4 * k, 100)))):
        v0 = np.random.default_rng(stream).standard_normal(n)
        try:
            return eigsh(operator, k=k, which="LA", v0=v0, tol=tol, ncv=size)
        except ArpackError:
            continue
    if n <= dense_rows:
        matrix = np.asarray(operator @ np.eye(n, dtype=operator.dtype), dtype=np.float64)
        values, vectors = dense_eigenpairs((matrix + matrix.T) / 2)
        return values[-k:], vectors[:, -k:]
    start = np.random.default_rng([seed, 2]).standard_normal((n, k))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the best iterate is returned if the tolerance is not reached
        result: Any = lobpcg(operator, start, tol=max(tol, 1e-6), maxiter=200, largest=True)
    order = np.argsort(result[0], kind="stable")
    return result[0][order], result[1][:, order]


def dense_eigenpairs(M: Float64) -> tuple[Float64, Float64]:
    """All eigenvalues (n,) of the symmetric matrix ``M (n, n)``, ascending, and the eigenvectors (n, n)."""
    with blas_threads(len(M)):
        values, vectors = np.linalg.eigh(M)
    return values, vectors


def _scaled(A: sp.csr_array | Float64, scale: Float64) -> sp.csr_array | Float64:
    """``diag(scale) A diag(scale)`` in float64."""
    if isinstance(A, np.ndarray):
        return A * scale[:, None] * scale
    return sp.csr_array(sp.diags_array(scale) @ A @ sp.diags_array(scale)).astype(np.float64)


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
    model = KMeans(n_clusters, n_init=10, random_state=seed).fit(vectors)
    return model.labels_.astype(np.int64)  # type: ignore[no-any-return]
