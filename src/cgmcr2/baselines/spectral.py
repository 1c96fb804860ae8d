"""Spectral clustering by normalized cut of a sparse neighbour graph, with the Nyström extension to new rows."""

from __future__ import annotations

import dataclasses
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import sklearn.cluster
import torch
from sklearn.metrics import pairwise_distances_argmin

from cgmcr2.graphs.spectral import leading_eigenvectors
from cgmcr2.objectives import cosine_topk

from .base import Arrays, Baseline, Float32, Int64, unit_rows

Float64 = npt.NDArray[np.float64]
Kernel = Literal["cosine", "gaussian"]

SIGMAS = (3.0, 2.0, 1.0, 0.5, 0.4, 0.3, 0.2, 0.1, 0.07, 0.05)  # the search of the paper's supplement
SIZES = (3, 10, 100, 1000)
BLOCK = 256  # new rows whose similarities to the fitted ones are held at once


class Spectral(Baseline):
    r"""Spectral clustering (Ncut): eigenvectors of a neighbour graph, then k-means.

    Minimises the relaxed normalized cut :math:`\min_{H'DH = I} \mathrm{tr}(H'(D - A)H)` of the graph ``A (n, n)`` of
    the ``s`` most similar rows of each row, symmetrised by the mean of both directions; the rows of the k eigenvectors
    are scaled to unit length and given to k-means. Rows of ``X`` are scaled to unit length first. The graph is sparse
    and made in blocks: memory is ``n s`` for the graph and ``n k`` for the eigenvectors, never ``n n``.

    New rows: the Nyström extension :math:`h(x) = \Lambda^{-1} \sum_i a(x, x_i) deg_i^{-1/2} v_i` over the s fitted rows
    most similar to x, and the nearest of the k-means centres. For that the fitted rows are kept.

    Parameters
    ----------
    kernel : "cosine" (similarities, those below zero dropped) or "gaussian" ``exp(-|x_i - x_j|^2 / (2 sigma^2))``
    s : neighbours of each row
    sigma : bandwidth of the Gaussian
    search : try the 40 Gaussian graphs of the CgMCR² paper's supplement (its ``sigma`` and ``s``) and keep the one with
        the largest relative eigengap ``(w_k - w_{k+1}) / (1 - w_{k+1})``. The paper took the one that labels liked
        best; ``candidates_`` holds the labels of all of them for whoever wants to repeat that.
    n_init : starts of k-means

    Differs from scikit-learn's: the graph is weighted and made in blocks, rows of eigenvectors have unit length, the
    graph's components are found before the eigenvectors, since Lanczos misses eigenvalues that are there several times,
    and new rows can be predicted.

    >>> X = np.repeat(np.eye(3), 5, axis=0) + 0.1 * np.random.default_rng(0).random((15, 3))
    >>> Spectral(3, s=4).fit(X).predict(X[[0, 1, 5]]).shape
    (3,)
    """

    name = "spectral"
    reference = "Shi and Malik, TPAMI 2000; Ng, Jordan and Weiss, NIPS 2001; Fowlkes et al., TPAMI 2004 (Nyström)"

    def __init__(
        self,
        n_clusters: int = 10,
        *,
        random_state: int = 0,
        kernel: Kernel = "cosine",
        s: int = 10,
        sigma: float = 0.5,
        search: bool = False,
        n_init: int = 10,
        verbose: bool = False,
    ) -> None:
        self.n_clusters = n_clusters
        self.random_state = random_state
        self.kernel = kernel
        self.s = s
        self.sigma = sigma
        self.search = search
        self.n_init = n_init
        self.verbose = verbose

    def _fit(self, X: Float32, seed: int) -> Int64:
        if self.kernel not in ("cosine", "gaussian"):
            raise ValueError(f"kernel must be 'cosine' or 'gaussian', but is {self.kernel!r}.")
        X = unit_rows(X)
        if not self.search:
            labels, self.map_, self.eigengap_ = fit_graph(
                X, neighbours(X, self.s), self.n_clusters, self._sigma(), seed, self.n_init
            )
            return labels
        found = neighbours(X, max(SIZES))
        self.candidates_: dict[tuple[float, int], tuple[float, Int64]] = {}
        for sigma, s in [(sigma, s) for s in SIZES for sigma in SIGMAS if s == 3 or s <= 2 * len(X)]:
            nearest = found[0][:, :s], found[1][:, :s]
            labels, graph, gap = fit_graph(X, nearest, self.n_clusters, sigma, seed, self.n_init)
            if not self.candidates_ or gap > self.eigengap_:
                best, self.map_, self.eigengap_ = labels, graph, gap
            self.candidates_[sigma, s] = gap, labels
        return best

    def _sigma(self) -> float | None:
        return self.sigma if self.kernel == "gaussian" else None

    def _predict(self, X: Float32) -> Int64:
        return self.map_.predict(unit_rows(X))

    def _state(self) -> Arrays:
        return self.map_.arrays()

    def _restore(self, arrays: Arrays) -> None:
        self.map_ = NystromMap.of(arrays)


@dataclasses.dataclass(frozen=True)
class NystromMap:
    """What labels new rows: the fitted rows (n, D), the eigenvectors as seen from them (n, k), k-means' centres."""

    rows: Float32
    scaled_vectors: Float64  # deg_i^(-1/2) v_i / w
    centres: Float64
    s: int
    sigma: float | None  # None: cosine

    def predict(self, X: Float32) -> Int64:
        """(m,) the cluster of unit rows ``X (m, D)``."""
        labels = np.empty(len(X), dtype=np.int64)
        for start in range(0, len(X), BLOCK):
            cosines = X[start : start + BLOCK] @ self.rows.T
            s = min(self.s, cosines.shape[1])
            kept = np.argpartition(cosines, -s, axis=1)[:, -s:]
            weights = weight(np.take_along_axis(cosines, kept, axis=1), self.sigma)
            ends = np.arange(len(kept) + 1) * s
            W = sp.csr_array((weights.ravel(), kept.ravel(), ends), shape=cosines.shape)
            H = normalised(W @ self.scaled_vectors)  # (b, n) x (n, k) -> (b, k)
            labels[start : start + BLOCK] = pairwise_distances_argmin(H, self.centres)
        return labels

    def arrays(self) -> Arrays:
        """As named arrays, to be saved."""
        sigma = np.float64(np.nan if self.sigma is None else self.sigma)
        fields: Arrays = {"rows": self.rows, "scaled_vectors": self.scaled_vectors, "centres": self.centres}
        return {**fields, "s": np.asarray(self.s), "sigma": np.asarray(sigma)}

    @classmethod
    def of(cls, arrays: Arrays) -> NystromMap:
        """The map that ``arrays()`` described."""
        sigma = float(arrays["sigma"])
        fields = {name: arrays[name] for name in ("rows", "scaled_vectors", "centres")}
        return cls(**fields, s=int(arrays["s"]), sigma=None if np.isnan(sigma) else sigma)


def neighbours(X: Float32, s: int) -> tuple[Float32, Int64]:
    """Cosines and indices (n, s) of the rows most similar to each unit row, without itself, most similar first."""
    edges = cosine_topk(torch.from_numpy(np.require(X, requirements="W")), s)
    values, columns = edges.weights.view(len(X), -1), edges.cols.view(len(X), -1)
    values, order = values.sort(dim=1, descending=True, stable=True)
    return values.numpy(), columns.gather(1, order).numpy()


def fit_graph(
    X: Float32, nearest: tuple[Float32, Int64], k: int, sigma: float | None, seed: int, n_init: int = 10
) -> tuple[Int64, NystromMap, float]:
    """Labels, the map for new rows, and the relative eigengap of the graph that ``nearest`` describes."""
    n, s = nearest[1].shape
    W = sp.csr_array((weight(nearest[0], sigma).ravel(), nearest[1].ravel(), np.arange(n + 1) * s), shape=(n, n))
    A = sp.csr_array((W + W.T) / 2)
    values, vectors, scale = leading_eigenvectors(A, min(k + 1, n), seed)
    gap = (values[k - 1] - values[k]) / max(1 - values[k], 1e-12) if len(values) > k else 0.0
    values, vectors = values[:k], vectors[:, :k]
    model = sklearn.cluster.KMeans(k, n_init=n_init, random_state=seed % 2**32).fit(normalised(vectors))
    inverse = 1 / np.where(np.abs(values) > 1e-9, values, 1)
    graph = NystromMap(X, scale[:, None] * vectors * inverse, model.cluster_centers_, s, sigma)
    return model.labels_.astype(np.int64), graph, float(gap)


def weight(cosines: npt.NDArray[Any], sigma: float | None) -> npt.NDArray[Any]:
    """Edge weights: the cosines from zero up, or their Gaussian; of unit rows |a - b|^2 = 2 - 2 a'b."""
    cosines = np.maximum(cosines, 0)
    return cosines if sigma is None else np.exp(np.minimum(cosines - 1, 0) / sigma**2)


def normalised(vectors: Float64) -> Float64:
    """Rows of unit length (Ng, Jordan and Weiss); a row of zeros stays one."""
    return unit_rows(vectors)
