"""Geometry of the clusters in the embedding: typicality, outliers, cohesion and confusion.

A cluster is a subspace, described by its second moment ``C = mean(z z')``. The *energy* ``z' C z`` of a row, its mean
squared cosine with the members of its cluster, is all that typicality, outlier score and cohesion need.
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
    return _energies([(Z, labels)], (Z, labels))[0]


def outlier_scores(
    Z: NDArray[Any], labels: Int64, reference: tuple[NDArray[Any], Int64] | None = None
) -> NDArray[np.float32]:
    """(n,) how unusual each row is for its cluster: 0.99 is more unusual than 99 % of the reference rows.

    The deficit of a row is how far its energy falls below the mean of its cluster, relative to that mean. The score is
    the rank of the deficit among the reference rows.

    Args:
        Z: embedding (n, d), unit rows.
        labels: clusters (n,).
        reference: embedding and labels of the fitted rows, to score new rows; default: the rows themselves.

    >>> Z = np.array([[1, 0], [1, 0], [1, 0], [0.6, 0.8]])
    >>> outlier_scores(Z, np.zeros(4, dtype=np.int64)).tolist()
    [0.0, 0.0, 0.0, 0.75]
    """
    known = (Z, labels) if reference is None else reference
    known_energy, energy = _energies([known, (Z, labels)], known)
    k = max(int(known[1].max(initial=-1)), int(labels.max(initial=-1))) + 1
    sizes = np.bincount(known[1], minlength=k)
    mean = np.bincount(known[1], weights=known_energy, minlength=k) / np.maximum(sizes, 1)
    known_deficit = 1 - known_energy / np.maximum(mean, 1e-12)[known[1]]
    deficit = np.where(sizes[labels] > 0, 1 - energy / np.maximum(mean, 1e-12)[labels], 1.0)
    ranks = np.searchsorted(np.sort(known_deficit.round(6)), deficit.round(6))  # rounded, so that equal rows tie
    return (ranks / max(len(known_deficit), 1)).astype(np.float32)


def _energies(sets: list[tuple[NDArray[Any], Int64]], known: tuple[NDArray[Any], Int64]) -> list[Float64]:
    """For each (Z, labels) of ``sets``, the energy of its rows in the clusters of ``known``; 0 in an empty cluster."""
    energies = [np.zeros(len(labels)) for _, labels in sets]
    k = max((int(labels.max(initial=-1)) for _, labels in (*sets, known)), default=-1) + 1
    known_members = split_by_cluster(known[1], k)
    set_members = [split_by_cluster(labels, k) for _, labels in sets]
    for cluster in np.unique(known[1]):
        C = second_moment(known[0][known_members[cluster]])
        for (Z, _), energy, clusters in zip(sets, energies, set_members, strict=True):
            members = clusters[cluster]
            rows = np.asarray(Z[members], dtype=np.float64)
            energy[members] = np.einsum("nd,nd->n", rows @ C, rows)
    return energies


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
