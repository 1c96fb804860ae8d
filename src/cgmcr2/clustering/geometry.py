"""Geometry of the clusters in the embedding: typicality, cohesion and confusion.

A cluster is a subspace, described by its second moment ``C = mean(z z')``. The *energy* ``z' C z`` of a row, its mean
squared cosine with the members of its cluster, is all that typicality and cohesion need.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from .clustering import Clustering

Float64 = NDArray[np.float64]
Int64 = NDArray[np.int64]

MIN_CONFUSION = 0.01  # smaller mean memberships in another cluster are not reported


def split_by_cluster(labels: Int64, k: int) -> list[Int64]:
    """Row numbers of each of the k clusters, ascending, with one sort instead of k passes.

    >>> split_by_cluster(np.array([2, 0, 2]), 3)
    [array([1]), array([], dtype=int64), array([0, 2])]
    """
    order = np.argsort(labels, kind="stable")
    return np.split(order, np.cumsum(np.bincount(labels, minlength=k))[:-1])


def second_moment(Z: NDArray[Any]) -> Float64:
    """``mean(z z')`` (d, d) of the rows of ``Z (m, d)``."""
    rows = np.asarray(Z, dtype=np.float64)
    return rows.T @ rows / max(len(rows), 1)


def cluster_energy(Z: NDArray[Any], labels: Int64) -> Float64:
    """(n,) the mean squared cosine ``z' C z`` of each unit row of ``Z (n, d)`` with the members of its cluster.

    Its mean over a cluster is ``||C||_F^2``.

    >>> cluster_energy(np.eye(2), np.zeros(2, dtype=np.int64)).tolist()
    [0.5, 0.5]
    """
    energy = np.zeros(len(labels))
    for members in split_by_cluster(labels, int(labels.max(initial=-1)) + 1):
        rows = np.asarray(Z[members], dtype=np.float64)
        energy[members] = np.einsum("nd,nd->n", rows @ second_moment(rows), rows)
    return energy


class ClusterSummary(NamedTuple):
    """A row of ``clusters.csv``."""

    cluster: int
    name: str
    size: int
    confidence: float  # mean over the members
    cohesion: float | None  # root mean square cosine between members: 1 is a line; None without an embedding
    confused_with: int | None  # the other cluster with the largest mean membership of the members, if any
    confusion: float  # that mean membership


def summarize_clusters(clustering: Clustering) -> list[ClusterSummary]:
    """Size, confidence, cohesion and confusion of every non-empty cluster.

    >>> from cgmcr2 import Clustering
    >>> c = Clustering(["a", "b"], [0, 0], probabilities=[[0.8, 0.2, 0.0], [0.6, 0.3, 0.1]], embedding=[[1, 0], [0, 1]])
    >>> summary = summarize_clusters(c)[0]
    >>> summary.size, summary.confidence, summary.cohesion, summary.confused_with, summary.confusion
    (2, 0.7, 0.7071, 1, 0.25)
    """
    table = []
    for cluster in clustering.clusters:
        members = clustering.rows(cluster)
        cohesion, other, confusion = None, None, 0.0
        if clustering.energy is not None:
            cohesion = round(float(np.sqrt(clustering.energy[members].mean())), 4)
        if clustering.memberships is not None:
            mean = clustering.memberships[members].mean(axis=0, dtype=np.float64)
            mean[cluster] = 0
            if mean.max() >= MIN_CONFUSION:
                other, confusion = int(mean.argmax()), round(float(mean.max()), 4)
        confidence = round(float(np.mean(clustering.confidence[members], dtype=np.float64)), 4)
        table.append(
            ClusterSummary(cluster, clustering.names[cluster], len(members), confidence, cohesion, other, confusion)
        )
    return table
