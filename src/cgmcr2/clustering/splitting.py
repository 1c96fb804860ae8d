"""Propose how to split a cluster."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cgmcr2.consensus import ConsensusClustering
from cgmcr2.features.sources import FeatureSource, read_rows

from .clustering import Clustering

MAX_ROWS = 20_000  # rows of a cluster that the parts are found from


def propose_split(
    clustering: Clustering, cluster: int | str, m: int = 2, *, features: FeatureSource | None = None
) -> list[NDArray[np.int64]]:
    """The rows of the m - 1 smaller of m parts of a cluster, largest part first, for ``Clustering.split``.

    The parts are the consensus partition of the ``features (n, D)`` of the images, or else of their embedding. Locked
    images stay in the cluster.

    >>> rng = np.random.default_rng(0)
    >>> X = np.repeat(np.eye(4, dtype=np.float32)[:2], 30, axis=0) + 0.1 * rng.normal(size=(60, 4)).astype(np.float32)
    >>> c = Clustering([str(row) for row in range(60)], np.zeros(60))
    >>> [len(rows) for rows in propose_split(c, 0, features=X)]
    [30]
    """
    source = clustering.embedding if features is None else features
    if source is None:
        raise ValueError("Splitting needs the features or the embedding of the images, but there are none.")
    rows = clustering.rows(cluster)
    if len(rows) < 3:
        raise ValueError(f"A cluster needs at least 3 images to be split, but this one has {len(rows)}.")
    if not 2 <= m < len(rows):
        raise ValueError(f"A cluster of {len(rows):,} images can be split into 2 to {len(rows) - 1:,} parts, not {m}.")
    model = ConsensusClustering(m).fit(read_rows(source, rows[:: -(-len(rows) // MAX_ROWS)]))
    labels = model.predict(read_rows(source, rows)) if len(rows) > MAX_ROWS else model.labels_
    order = np.argsort(-np.bincount(labels, minlength=m), kind="stable")
    parts = [rows[(labels == part) & ~clustering.locked[rows]] for part in order[1:]]
    parts = [part for part in parts if len(part)]
    if not parts:
        raise ValueError("All images but those of the largest part are locked; unlock some before splitting.")
    return parts
