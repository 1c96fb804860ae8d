"""What to make of an answer: how unusual an image is, how tight a cluster, and what it is mistaken for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cgmcr2.clustering.hierarchy import second_moment

if TYPE_CHECKING:
    from cgmcr2.clustering import Clustering

LEAST_CONFUSION = 0.01  # of membership: less than that is no confusion


class ClusterFacts(NamedTuple):
    """A row of ``clusters.csv``."""

    cluster: int
    name: str
    size: int
    confidence: float  # mean over its images
    cohesion: float | None  # root mean square cosine between two of its images: 1 is a line; None without an embedding
    confused_with: int | None  # the other cluster that its images lean to most, if they do
    confusion: float  # mean membership of its images there


def cluster_facts(clustering: Clustering) -> list[ClusterFacts]:
    """Size, confidence, cohesion and nearest confusion of every cluster that has images.

    >>> from cgmcr2 import Clustering
    >>> c = Clustering(["a", "b"], [0, 0], probabilities=[[0.8, 0.2, 0.0], [0.6, 0.3, 0.1]], embedding=[[1, 0], [0, 1]])
    >>> fact = cluster_facts(c)[0]
    >>> fact.size, fact.confidence, fact.cohesion, fact.confused_with, fact.confusion
    (2, 0.7, 0.7071, 1, 0.25)
    """
    table = []
    for cluster in clustering.clusters:
        rows = clustering.rows(cluster)
        cohesion, other, confusion = None, None, 0.0
        if clustering.embedding is not None:
            cohesion = round(float(np.linalg.norm(second_moment(clustering.embedding[rows]))), 4)
        if clustering.probabilities is not None:
            mean = np.asarray(clustering.probabilities[rows], dtype=np.float64).mean(axis=0)
            mean[cluster] = 0
            if mean.max() >= LEAST_CONFUSION:
                other, confusion = int(mean.argmax()), round(float(mean.max()), 4)
        confidence = round(float(np.mean(clustering.confidence[rows], dtype=np.float64)), 4)
        table.append(
            ClusterFacts(cluster, clustering.names[cluster], len(rows), confidence, cohesion, other, confusion)
        )
    return table


def outlier_scores(
    Z: NDArray[Any],
    labels: NDArray[np.int64],
    reference: tuple[NDArray[Any], NDArray[np.int64]] | None = None,
) -> NDArray[np.float32]:
    """(n,) how unusual each row is within its cluster: 0.99 is more unusual than 99 % of the reference's rows.

    A row of a cluster lies along the directions that most of the cluster shares: its mean squared cosine with the
    cluster is near the cluster's own. How far it falls short of it is compared with all rows of the reference, which
    is the rows themselves or, for rows labelled later, ``(Z, labels)`` of those that were fitted.

    >>> Z = np.array([[1, 0], [1, 0], [1, 0], [0.6, 0.8]])
    >>> outlier_scores(Z, np.zeros(4, dtype=np.int64)).tolist()
    [0.0, 0.0, 0.0, 0.75]
    """
    Z_known, known = (Z, labels) if reference is None else reference
    own, short = np.empty(len(known)), np.ones(len(labels))
    for cluster in np.unique(known):
        members = np.flatnonzero(known == cluster)
        moment = second_moment(Z_known[members])
        usual = max(float((moment * moment).sum()), 1e-12)  # mean squared cosine of two members
        own[members] = 1 - _energy(Z_known[members], moment) / usual
        rows = np.flatnonzero(labels == cluster)
        short[rows] = 1 - _energy(Z[rows], moment) / usual
    ranks = np.searchsorted(np.sort(own.round(6)), short.round(6))  # rounded: equal rows are equally usual
    return (ranks / max(len(own), 1)).astype(np.float32)


def _energy(Z: NDArray[Any], moment: NDArray[np.float64]) -> NDArray[np.float64]:
    rows = np.asarray(Z, dtype=np.float64)
    energy: NDArray[np.float64] = np.einsum("nd,nd->n", rows @ moment, rows)
    return energy
