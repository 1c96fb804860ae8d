"""The consensus partition as a scikit-learn estimator."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor

from cgmcr2._arrays import float32_rows
from cgmcr2._random import seed_from

from .ensemble import DEFAULT, ConsensusConfig, consensus_partition, neighbourhood
from .partitions import Int64
from .views import COMPONENTS, Views, space_views, unit_views, view_neighbours


class ConsensusClustering(ClusterMixin, BaseEstimator):  # type: ignore[misc]
    """Consensus of k-means partitions of smoothed features, which ``CgMCR2`` trains towards, without a network.

    New rows are assigned to the nearest cluster centroid in both linear views.

    Parameters
    ----------
    n_clusters : int, default=10
        Number of clusters.
    random_state : int, default=0
        Random seed. Results are reproducible on the same machine.
    config : ConsensusConfig, default=None
        Constants of the algorithm; None uses the defaults.
    verbose : bool, default=False
        Show a progress bar.

    Attributes
    ----------
    labels_ : (n,) cluster of each row
    cluster_centers_ : (k, p) centroids in the views, as unit rows
    n_features_in_ : int

    Examples
    --------
    >>> from sklearn.datasets import make_blobs
    >>> X, y = make_blobs(300, n_features=16, centers=3, random_state=0)
    >>> model = ConsensusClustering(n_clusters=3).fit(X)
    >>> bool((model.predict(X) == model.labels_).all())
    True
    """

    def __init__(
        self,
        n_clusters: int = 10,
        *,
        random_state: int = 0,
        config: ConsensusConfig | None = None,
        verbose: bool = False,
    ) -> None:
        self.n_clusters = n_clusters
        self.random_state = random_state
        self.config = config
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None) -> ConsensusClustering:
        """Cluster the rows of ``X (n, D)``; ``y`` is ignored."""
        X = float32_rows(validate_data(self, X, dtype=[np.float32, np.float64], ensure_min_samples=2))
        k, n = self.n_clusters, len(X)
        if not isinstance(k, (int, np.integer)) or isinstance(k, bool) or not 1 <= k <= n:
            raise ValueError(f"n_clusters must be an integer between 1 and n_samples={n}, but is {k!r}.")
        config, seed = self.config or DEFAULT, seed_from(self.random_state)
        self.views_: list[Views] = space_views(X, COMPONENTS, seed)
        neighbours = view_neighbours(X, self.views_, 2 * neighbourhood(n, int(k)), seed)
        unit = unit_views(self.views_, torch.from_numpy(X))
        labels = consensus_partition(unit, neighbours, int(k), seed, config=config, progress=self.verbose).labels
        self.labels_: Int64 = labels
        one_hot = F.one_hot(torch.from_numpy(labels), int(k)).float()
        self.cluster_centers_ = F.normalize(one_hot.T @ self._viewed(X), dim=1).numpy()
        return self

    def predict(self, X: Any) -> Int64:
        """(n,) the cluster of each row of ``X (n, D)``: the centroid of largest cosine similarity."""
        check_is_fitted(self, "labels_")
        X = float32_rows(validate_data(self, X, dtype=[np.float32, np.float64], reset=False))
        similarity = self._viewed(X) @ torch.from_numpy(self.cluster_centers_).T
        return np.asarray(similarity.argmax(1).numpy(), dtype=np.int64)

    def _viewed(self, X: npt.NDArray[np.float32]) -> Tensor:
        return torch.cat(unit_views(self.views_, torch.from_numpy(X)), dim=1)
