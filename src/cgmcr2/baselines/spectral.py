"""Spectral clustering of a sparse neighbour graph, with the Nyström extension to new rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import sklearn.cluster
import torch
import torch.nn.functional as F
from sklearn.metrics import pairwise_distances_argmin

from cgmcr2._arrays import unit_rows
from cgmcr2.graphs.knn import top_similar
from cgmcr2.graphs.spectral import leading_eigenvectors

from .base import Arrays, Baseline, Float32, Int64

Float64 = npt.NDArray[np.float64]
Kernel = Literal["cosine", "gaussian"]

# Grid search of the CgMCR² paper's supplement: bandwidths, and numbers of neighbours.
SIGMAS = (3.0, 2.0, 1.0, 0.5, 0.4, 0.3, 0.2, 0.1, 0.07, 0.05)
NEIGHBOURS = (3, 10, 100, 1000)

PREDICT_ROWS = 256  # rows per prediction batch


@dataclass(kw_only=True, eq=False, repr=False)
class Spectral(Baseline):
    r"""Spectral clustering: normalized cut of a neighbour graph, relaxed to eigenvectors, then k-means.

    Minimises :math:`\mathrm{tr}(H'(D - A)H)` subject to :math:`H'DH = I` for the graph ``A (n, n)`` that connects each
    row to its ``s`` most similar rows, averaged over both directions. The rows of the k eigenvectors are scaled to unit
    length and clustered by k-means. Rows of ``X`` are scaled to unit length first. The graph is sparse: memory is
    ``n s`` for the graph and ``n k`` for the eigenvectors.

    New rows are embedded by the Nyström extension
    :math:`h(x) = \Lambda^{-1} \sum_i a(x, x_i) deg_i^{-1/2} v_i` over the s most similar training rows, and assigned to
    the nearest k-means centre, so the training rows are stored.

    Differences from scikit-learn: the graph is weighted and computed in blocks; rows of eigenvectors have unit length;
    connected components are found before the eigenvectors, because Lanczos misses repeated eigenvalues; new rows can be
    predicted.

    Parameters
    ----------
    kernel : {"cosine", "gaussian"}
        Cosine similarity with negative values set to 0, or ``exp(-|x_i - x_j|^2 / (2 sigma^2))``.
    s : int
        Neighbours of each row.
    sigma : float
        Bandwidth of the Gaussian kernel.
    search : bool
        Try the 40 Gaussian graphs of the CgMCR² paper's supplement (10 values of ``sigma``, 4 of ``s``) and keep the
        one with the largest relative eigengap ``(w_k - w_{k+1}) / (1 - w_{k+1})``. The paper keeps the one with the
        best accuracy instead.
    n_init : int
        Initialisations of k-means.

    Attributes
    ----------
    candidates_ : dict
        With ``search``, the eigengap and the labels by ``(sigma, s)``.

    Examples
    --------
    >>> X = np.repeat(np.eye(3), 5, axis=0) + 0.1 * np.random.default_rng(0).random((15, 3))
    >>> Spectral(3, s=4).fit(X).predict(X[[0, 1, 5]]).shape
    (3,)
    """

    name = "spectral"
    reference = "Shi and Malik, TPAMI 2000; Ng, Jordan and Weiss, NIPS 2001; Fowlkes et al., TPAMI 2004 (Nyström)"

    kernel: Kernel = "cosine"
    s: int = 10
    sigma: float = 0.5
    search: bool = False
    n_init: int = 10

    def _fit(self, X: Float32, seed: int) -> Int64:
        if self.kernel not in get_args(Kernel):
            raise ValueError(f"kernel must be one of {', '.join(map(repr, get_args(Kernel)))}, but is {self.kernel!r}.")
        X = unit_rows(X)
        if self.search:
            return self._search(X, seed)
        sigma = self.sigma if self.kernel == "gaussian" else None
        labels, self.map_, self.eigengap_ = fit_graph(
            X, neighbours(X, self.s), self.n_clusters, sigma, seed, self.n_init
        )
        return labels

    def _search(self, X: Float32, seed: int) -> Int64:
        """Keep the Gaussian graph with the largest relative eigengap."""
        cosines, indices = neighbours(X, max(NEIGHBOURS))
        self.candidates_: dict[tuple[float, int], tuple[float, Int64]] = {}
        for sigma, s in [(sigma, s) for s in NEIGHBOURS for sigma in SIGMAS if s == 3 or s <= 2 * len(X)]:
            nearest = cosines[:, :s], indices[:, :s]
            labels, extension, gap = fit_graph(X, nearest, self.n_clusters, sigma, seed, self.n_init)
            if not self.candidates_ or gap > self.eigengap_:
                best_labels, self.map_, self.eigengap_ = labels, extension, gap
            self.candidates_[sigma, s] = gap, labels
        return best_labels

    def _predict(self, X: Float32) -> Int64:
        return self.map_.predict(unit_rows(X))

    def _state(self) -> Arrays:
        return self.map_.arrays()

    def _restore(self, arrays: Arrays) -> None:
        self.map_ = NystromMap.from_arrays(arrays)


@dataclass(frozen=True)
class NystromMap:
    """Nyström extension of a spectral clustering to new rows.

    Attributes
    ----------
    rows : ndarray of shape (n, D)
        Training rows.
    scaled_vectors : ndarray of shape (n, k)
        ``deg_i^(-1/2) v_i / w``, with eigenvectors v and eigenvalues w.
    centres : ndarray of shape (k, k)
        k-means centres.
    s : int
        Neighbours of a row.
    sigma : float or None
        Bandwidth of the Gaussian kernel; None for cosine.
    """

    rows: Float32
    scaled_vectors: Float64
    centres: Float64
    s: int
    sigma: float | None

    def predict(self, X: Float32) -> Int64:
        """Return the cluster (m,) of each unit row of ``X (m, D)``."""
        labels = np.empty(len(X), dtype=np.int64)
        for start in range(0, len(X), PREDICT_ROWS):
            cosines = X[start : start + PREDICT_ROWS] @ self.rows.T
            s = min(self.s, cosines.shape[1])
            nearest = np.argpartition(cosines, -s, axis=1)[:, -s:]
            weights = edge_weights(np.take_along_axis(cosines, nearest, axis=1), self.sigma)
            indptr = np.arange(len(nearest) + 1) * s
            W = sp.csr_array((weights.ravel(), nearest.ravel(), indptr), shape=cosines.shape)
            H = unit_rows(W @ self.scaled_vectors)  # (b, n) x (n, k) -> (b, k)
            labels[start : start + PREDICT_ROWS] = pairwise_distances_argmin(H, self.centres)
        return labels

    def arrays(self) -> Arrays:
        """Return the fields as named arrays, for saving."""
        sigma = np.float64(np.nan if self.sigma is None else self.sigma)
        fields: Arrays = {"rows": self.rows, "scaled_vectors": self.scaled_vectors, "centres": self.centres}
        return {**fields, "s": np.asarray(self.s), "sigma": np.asarray(sigma)}

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> NystromMap:
        """Create the map from the result of ``arrays()``."""
        sigma = float(arrays["sigma"])
        fields = {name: arrays[name] for name in ("rows", "scaled_vectors", "centres")}
        return cls(**fields, s=int(arrays["s"]), sigma=None if np.isnan(sigma) else sigma)


def neighbours(X: Float32, s: int) -> tuple[Float32, Int64]:
    """Cosine similarities and indices (n, s) of the s nearest neighbours of each row of ``X (n, D)``, nearest first."""
    values, indices = top_similar(F.normalize(torch.from_numpy(np.require(X, requirements="W")), dim=1), s, sort=True)
    return values.numpy(), indices.numpy()


def fit_graph(
    X: Float32, nearest: tuple[Float32, Int64], k: int, sigma: float | None, seed: int, n_init: int = 10
) -> tuple[Int64, NystromMap, float]:
    """Cluster the neighbour graph of ``X (n, D)`` into k clusters.

    Parameters
    ----------
    X : ndarray of shape (n, D)
        Unit rows.
    nearest : tuple of ndarray of shape (n, s)
        Cosine similarities and indices, as ``neighbours`` returns them.
    k : int
        Number of clusters.
    sigma : float or None
        Bandwidth of the Gaussian kernel; None for cosine.
    seed : int
        Random seed.
    n_init : int
        Initialisations of k-means.

    Returns
    -------
    labels : ndarray of shape (n,)
    extension : NystromMap
        Extension to new rows.
    gap : float
        Relative eigengap.
    """
    cosines, indices = nearest
    n, s = indices.shape
    W = sp.csr_array((edge_weights(cosines, sigma).ravel(), indices.ravel(), np.arange(n + 1) * s), shape=(n, n))
    A = sp.csr_array((W + W.T) / 2)
    values, vectors, scale = leading_eigenvectors(A, min(k + 1, n), seed)
    gap = (values[k - 1] - values[k]) / max(1 - values[k], 1e-12) if len(values) > k else 0.0
    values, vectors = values[:k], vectors[:, :k]
    model = sklearn.cluster.KMeans(k, n_init=n_init, random_state=seed).fit(unit_rows(vectors))
    inverse = 1 / np.where(np.abs(values) > 1e-9, values, 1)
    extension = NystromMap(X, scale[:, None] * vectors * inverse, model.cluster_centers_, s, sigma)
    return model.labels_.astype(np.int64), extension, float(gap)


def edge_weights(cosines: npt.NDArray[Any], sigma: float | None) -> npt.NDArray[Any]:
    """Edge weights from cosine similarities: clipped at 0, or the Gaussian kernel of the clipped ones."""
    cosines = np.maximum(cosines, 0)
    return (
        cosines if sigma is None else np.exp(np.minimum(cosines - 1, 0) / sigma**2)
    )  # unit rows: |a - b|^2 = 2 - 2 a'b
