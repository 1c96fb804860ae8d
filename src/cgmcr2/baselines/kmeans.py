"""k-means and spherical k-means."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
import sklearn.cluster
import sklearn.metrics

from cgmcr2._arrays import unit_rows

from .base import Arrays, Baseline, Float32, Int64, UnitCentroids


@dataclass(kw_only=True, eq=False, repr=False)
class KMeans(Baseline):
    """k-means: ``min sum_i |x_i - c_{y_i}|^2`` by Lloyd's algorithm with k-means++ initialisation.

    This is scikit-learn's k-means, by default on rows scaled to unit length, because cosine is the usual similarity of
    encoder features.

    Parameters
    ----------
    n_init : int
        Number of initialisations; the result of lowest inertia is kept.
    max_iter : int
        Maximum number of iterations per initialisation.
    normalize : bool
        Scale rows to unit length first.

    Examples
    --------
    >>> X = np.repeat(np.eye(3), 5, axis=0)
    >>> len(set(KMeans(3).fit_predict(X)))
    3
    """

    name = "k-means"
    reference = "MacQueen, 1967; Lloyd, 1982; Arthur and Vassilvitskii, SODA 2007"

    n_init: int = 10
    max_iter: int = 300
    normalize: bool = True

    def _fit(self, X: Float32, seed: int) -> Int64:
        model = sklearn.cluster.KMeans(
            self.n_clusters, n_init=self.n_init, max_iter=self.max_iter, random_state=seed
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


@dataclass(kw_only=True, eq=False, repr=False)
class SphericalKMeans(UnitCentroids):
    """Spherical k-means: ``max sum_i x_i' c_{y_i}`` over unit rows x and unit centres c.

    Alternates between assigning each row to the centre of largest cosine similarity and setting each centre to the mean
    of its rows, scaled to unit length, from a k-means++ initialisation. An empty cluster is moved to the row with the
    lowest similarity to its centre.

    Parameters
    ----------
    n_init : int
        Number of initialisations; the result of largest objective is kept.
    max_iter : int
        Maximum number of iterations per initialisation.

    Examples
    --------
    >>> X = np.repeat(np.eye(3), 5, axis=0) * np.arange(1, 16)[:, None]
    >>> len(set(SphericalKMeans(3).fit_predict(X)))
    3
    """

    name = "spherical-k-means"
    reference = "Dhillon and Modha, Machine Learning 2001"

    n_init: int = 10
    max_iter: int = 300

    def _fit(self, X: Float32, seed: int) -> Int64:
        X, self.objective_ = unit_rows(X), -np.inf
        random = np.random.RandomState(seed)
        for _ in range(self.n_init):
            initial, _ = sklearn.cluster.kmeans_plusplus(X, self.n_clusters, random_state=random)
            labels, centres, objective = _lloyd(X, initial, self.max_iter)
            if objective > self.objective_:
                self.objective_, self.cluster_centers_, best_labels = objective, centres, labels
        return best_labels


def _lloyd(X: Float32, centres: Float32, max_iter: int) -> tuple[Int64, Float32, float]:
    """Alternate assignments and centres until no label changes; return labels (n,), centres (k, D) and objective."""
    n = len(X)
    labels = np.full(n, -1)
    for _ in range(max_iter):
        cosines = X @ centres.T  # (n, k)
        new_labels = cosines.argmax(axis=1)
        if (new_labels == labels).all():
            break
        labels = new_labels
        indicator = sp.csr_array((np.ones(n, dtype=X.dtype), (labels, np.arange(n))), shape=(len(centres), n))
        sums = indicator @ X  # (k, n) x (n, D) -> (k, D)
        empty = np.flatnonzero(np.bincount(labels, minlength=len(centres)) == 0)
        sums[empty] = X[cosines.max(axis=1).argsort(kind="stable")[: len(empty)]]
        centres = unit_rows(sums)
    return labels, centres, float((X * centres[labels]).sum())
