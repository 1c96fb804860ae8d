"""k-means, the floor, and its spherical form."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
import sklearn.cluster
import sklearn.metrics

from .base import Arrays, Baseline, Float32, Int64, unit_rows


class KMeans(Baseline):
    """k-means: ``min sum_i |x_i - c_{y_i}|^2`` by Lloyd's algorithm from k-means++ starts.

    scikit-learn's, with ``normalize=True``, that is, on rows scaled to unit length: features of an encoder mean
    something by their direction.

    Parameters
    ----------
    n_init : starts; the one of lowest inertia is kept
    max_iter : iterations of a start
    normalize : scale rows to unit length first

    >>> X = np.repeat(np.eye(3), 5, axis=0)
    >>> len(set(KMeans(3).fit_predict(X)))
    3
    """

    name = "k-means"
    reference = "MacQueen, 1967; Lloyd, 1982; Arthur and Vassilvitskii, SODA 2007"

    def __init__(
        self,
        n_clusters: int = 10,
        *,
        random_state: int = 0,
        n_init: int = 10,
        max_iter: int = 300,
        normalize: bool = True,
        verbose: bool = False,
    ) -> None:
        self.n_clusters = n_clusters
        self.random_state = random_state
        self.n_init = n_init
        self.max_iter = max_iter
        self.normalize = normalize
        self.verbose = verbose

    def _fit(self, X: Float32, seed: int) -> Int64:
        model = sklearn.cluster.KMeans(
            self.n_clusters, n_init=self.n_init, max_iter=self.max_iter, random_state=seed % 2**32
        ).fit(self._rows(X))
        self.cluster_centers_, self.inertia_ = model.cluster_centers_, float(model.inertia_)
        return np.asarray(model.labels_, dtype=np.int64)

    def _predict(self, X: Float32) -> Int64:
        return np.asarray(sklearn.metrics.pairwise_distances_argmin(self._rows(X), self.cluster_centers_))

    def _state(self) -> Arrays:
        return {"cluster_centers_": self.cluster_centers_}

    def _restore(self, arrays: Arrays) -> None:
        self.cluster_centers_ = arrays["cluster_centers_"]

    def _rows(self, X: Float32) -> Any:
        return unit_rows(X) if self.normalize else X


class SphericalKMeans(Baseline):
    """Spherical k-means: ``max sum_i x_i' c_{y_i}`` over unit rows x and unit centres c.

    Each start is k-means++ on the unit rows; then rows go to the centre of largest cosine and a centre is the mean of
    its rows scaled to unit length. A centre that loses all its rows moves to the row that fits worst.

    Parameters
    ----------
    n_init : starts; the one of largest objective is kept
    max_iter : iterations of a start

    >>> X = np.repeat(np.eye(3), 5, axis=0) * np.arange(1, 16)[:, None]
    >>> len(set(SphericalKMeans(3).fit_predict(X)))
    3
    """

    name = "spherical-k-means"
    reference = "Dhillon and Modha, Machine Learning 2001"

    def __init__(
        self,
        n_clusters: int = 10,
        *,
        random_state: int = 0,
        n_init: int = 10,
        max_iter: int = 300,
        verbose: bool = False,
    ) -> None:
        self.n_clusters = n_clusters
        self.random_state = random_state
        self.n_init = n_init
        self.max_iter = max_iter
        self.verbose = verbose

    def _fit(self, X: Float32, seed: int) -> Int64:
        X, best = unit_rows(X), -np.inf
        random = np.random.RandomState(seed % 2**32)
        for _ in range(self.n_init):
            centres, _ = sklearn.cluster.kmeans_plusplus(X, self.n_clusters, random_state=random)
            labels, centres, objective = _ascend(X, centres, self.max_iter)
            if objective > best:
                best, self.cluster_centers_, found = objective, centres, labels
        self.objective_ = best
        return found

    def _predict(self, X: Float32) -> Int64:
        return np.asarray((unit_rows(X) @ self.cluster_centers_.T).argmax(axis=1))

    def _state(self) -> Arrays:
        return {"cluster_centers_": self.cluster_centers_}

    def _restore(self, arrays: Arrays) -> None:
        self.cluster_centers_ = arrays["cluster_centers_"]


def _ascend(X: Float32, centres: Float32, max_iter: int) -> tuple[Int64, Float32, float]:
    """Alternate labels and centres until no label changes."""
    n = len(X)
    labels = np.full(n, -1)
    for _ in range(max_iter):
        cosines = X @ centres.T  # (n, k)
        new = cosines.argmax(axis=1)
        if (new == labels).all():
            break
        labels = new
        members = sp.csr_array((np.ones(n, dtype=X.dtype), (labels, np.arange(n))), shape=(len(centres), n))
        sums = members @ X  # (k, n) x (n, D) -> (k, D)
        empty = np.flatnonzero(np.bincount(labels, minlength=len(centres)) == 0)
        sums[empty] = X[cosines.max(axis=1).argsort(kind="stable")[: len(empty)]]
        centres = unit_rows(sums)
    return labels, centres, float((X * centres[labels]).sum())
