"""UMAP followed by k-means."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import sklearn.cluster
from sklearn.metrics import pairwise_distances_argmin
from sklearn.neighbors import NearestNeighbors

from cgmcr2._arrays import unit_rows

from .base import Arrays, Baseline, Float32, Int64, missing_package


@dataclass(kw_only=True, eq=False, repr=False)
class UMAPKMeans(Baseline):
    """k-means on an embedding by UMAP with cosine distance, by the package ``umap-learn``.

    A new row is embedded at the mean of its nearest training rows, which is where UMAP's own ``transform`` starts, and
    assigned to the nearest k-means centre, so the training rows are stored.

    Parameters
    ----------
    n_components : int
        Dimensions of the embedding.
    n_neighbors : int
        Neighbours of each row in UMAP's graph, and training rows that embed a new row.
    min_dist : float
        UMAP's minimum distance of embedded rows; 0 is recommended for clustering.
    n_init : int
        Initialisations of k-means.

    Examples
    --------
    >>> UMAPKMeans(3).fit(np.eye(3))  # doctest: +SKIP
    """

    name = "umap-k-means"
    reference = "McInnes, Healy and Melville, UMAP, 2018"
    requires = "umap"

    n_components: int = 10
    n_neighbors: int = 15
    min_dist: float = 0.0
    n_init: int = 10

    def _fit(self, X: Float32, seed: int) -> Int64:
        if reason := missing_package(type(self)):
            raise ImportError(f"UMAP {reason}.")
        import umap

        self.rows_ = unit_rows(X)
        reducer: Any = umap.UMAP(
            n_components=min(self.n_components, len(X) - 2),
            n_neighbors=min(self.n_neighbors, len(X) - 1),
            min_dist=self.min_dist,
            metric="cosine",
            random_state=seed % 2**32,
            n_jobs=1,
        )
        self.embedding_: Float32 = np.asarray(reducer.fit_transform(self.rows_), dtype=np.float32)
        model = sklearn.cluster.KMeans(self.n_clusters, n_init=self.n_init, random_state=seed % 2**32)
        labels = model.fit_predict(self.embedding_)
        self.cluster_centers_ = model.cluster_centers_
        return np.asarray(labels, dtype=np.int64)

    def _predict(self, X: Float32) -> Int64:
        model = NearestNeighbors(n_neighbors=min(self.n_neighbors, len(self.rows_)), algorithm="brute").fit(self.rows_)
        nearest = model.kneighbors(unit_rows(X), return_distance=False)  # (n, n_neighbors)
        return np.asarray(pairwise_distances_argmin(self.embedding_[nearest].mean(1), self.cluster_centers_))

    def _state(self) -> Arrays:
        return {"rows_": self.rows_, "embedding_": self.embedding_, "cluster_centers_": self.cluster_centers_}

    def _restore(self, arrays: Arrays) -> None:
        self.rows_, self.embedding_ = arrays["rows_"], arrays["embedding_"]
        self.cluster_centers_ = arrays["cluster_centers_"]
