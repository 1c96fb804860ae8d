"""HDBSCAN: density-based clustering, which chooses the number of clusters itself."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import sklearn.cluster
from sklearn.decomposition import PCA

from .base import CentroidBaseline, Float32, Int64


@dataclass(kw_only=True, eq=False, repr=False)
class HDBSCAN(CentroidBaseline):
    """HDBSCAN: the most stable clusters in the hierarchy of density levels, by scikit-learn.

    HDBSCAN does not take a number of clusters, and it leaves rows in sparse regions without a cluster. By default it is
    fitted with minimum cluster sizes 5, 10, 20, ..., up to half the mean cluster size n / k, and the result whose
    number of clusters is closest to ``n_clusters`` is kept; it may differ from ``n_clusters``. Noise and new rows are
    assigned to the nearest centroid.

    Rows are scaled to unit length and reduced to 50 principal components, because densities are hard to estimate in
    hundreds of dimensions and the search for neighbours is slow there.

    Parameters
    ----------
    n_clusters : int
        Number of clusters to aim at; only used if ``min_cluster_size`` is None.
    min_cluster_size : int, optional
        Smallest number of rows that form a cluster; None tries several, as above.
    min_samples : int
        Neighbours, including the row itself, whose distance defines the density at a row.
    n_components : int or None
        Number of principal components; None uses the features themselves.

    Attributes
    ----------
    min_cluster_size_ : int
        Minimum cluster size of the result.

    Examples
    --------
    >>> X = np.repeat(np.eye(3), 20, axis=0) + 0.1 * np.random.default_rng(0).random((60, 3))
    >>> len(set(HDBSCAN(3).fit_predict(X)))
    3
    """

    name = "hdbscan"
    reference = "Campello, Moulavi and Sander, PAKDD 2013"

    min_cluster_size: int | None = None
    min_samples: int = 5
    n_components: int | None = 50

    def _fit_rows(self, U: Float32, seed: int) -> Int64:
        n, D = U.shape
        if self.n_components is not None and self.n_components < min(n, D):
            U = PCA(self.n_components, random_state=seed).fit_transform(U)
        partitions = {size: self._cluster(U, size) for size in self._sizes(n)}
        self.min_cluster_size_ = min(
            partitions, key=lambda size: abs(int(partitions[size].max()) + 1 - self.n_clusters)
        )
        return partitions[self.min_cluster_size_]

    def _cluster(self, X: Float32, size: int) -> Int64:
        """Cluster of each row of ``X (n, p)``; -1 is noise."""
        model = sklearn.cluster.HDBSCAN(
            min_cluster_size=size, min_samples=min(self.min_samples, len(X) - 1), copy=True
        ).fit(X)
        return np.asarray(model.labels_, dtype=np.int64)

    def _sizes(self, n: int) -> list[int]:
        """Minimum cluster sizes to try for n rows."""
        if self.min_cluster_size is not None:
            return [self.min_cluster_size]
        largest = n // (2 * self.n_clusters)
        return [min(5, n)] + [5 * 2**i for i in range(1, 20) if 5 * 2**i <= largest]
