"""Clusters and per-row values as the page reads them."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cgmcr2.clustering import Clustering
from cgmcr2.clustering.geometry import ClusterSummary, summarize_clusters
from cgmcr2.model.levels import Levels

CLOSE_CALL = 0.1  # rows of a smaller margin are close calls
TYPICAL, UNCERTAIN = 12, 6  # rows listed for the card of a cluster
NO_CLUSTER = 65_535  # runner-up of a row without probabilities


def cluster_entries(
    clustering: Clustering,
    summaries: Sequence[ClusterSummary] | None = None,
    page_index: NDArray[np.int64] | None = None,
    *,
    typical: int = TYPICAL,
    uncertain: int = UNCERTAIN,
) -> list[dict[str, Any]]:
    """One mapping per non-empty cluster: name, size, scores, and its most typical and least certain rows.

    ``page_index (n,)`` is the position of each row on a page that holds a sample, -1 if it is not on the page; the
    default is the row number.

    >>> c = Clustering(["a", "b", "c"], [0, 1, 1], probabilities=[[1, 0], [0.25, 0.75], [0.5, 0.5]])
    >>> [(entry["name"], entry["typical"], entry["attention"]) for entry in cluster_entries(c)]
    [('Cluster 0', [0], 0.0), ('Cluster 1', [1, 2], 0.875)]
    """
    page_index = np.arange(len(clustering)) if page_index is None else page_index
    summaries = summarize_clusters(clustering) if summaries is None else summaries
    cohesions = [summary.cohesion for summary in summaries if summary.cohesion is not None]
    usual_cohesion = float(np.median(cohesions)) if cohesions else 1.0
    entries = []
    for summary in summaries:
        rows = clustering.rows(summary.cluster)
        listed = {
            "typical": clustering.representatives(summary.cluster, len(rows)),
            "uncertain": clustering.uncertain(summary.cluster, len(rows)),
        }
        indices = {kind: page_index[members] for kind, members in listed.items()}
        entries.append(
            {
                "number": summary.cluster,
                "name": summary.name,
                "size": summary.size,
                "confidence": round(float(np.median(clustering.confidence[rows])), 4),
                "cohesion": summary.cohesion,
                "confused_with": summary.confused_with,
                "confusion": summary.confusion,
                "attention": round(_attention(clustering, summary, rows, usual_cohesion), 4),
                "locked": int(clustering.locked[rows].sum()),
                "excluded": summary.cluster == clustering.excluded,
                "typical": indices["typical"][indices["typical"] >= 0][:typical].tolist(),
                "uncertain": indices["uncertain"][indices["uncertain"] >= 0][:uncertain].tolist(),
            }
        )
    return entries


def _attention(
    clustering: Clustering, summary: ClusterSummary, rows: NDArray[np.int64], usual_cohesion: float
) -> float:
    """How much a cluster needs a look, 0 to 1.

    ``1 - (1 - close calls) (1 - 2 confusion) cohesion``, times the share of rows that nobody has confirmed. The
    cohesion is relative to the median of the clusters, because its level depends on the features.
    """
    if summary.cluster == clustering.excluded:
        return 0.0
    close_calls = float((clustering.margin[rows] < CLOSE_CALL).mean())
    clear = (1 - close_calls) * (1 - min(1.0, 2 * summary.confusion))
    cohesion = 1.0 if not summary.cohesion else min(1.0, summary.cohesion / usual_cohesion)
    return (1 - clear * cohesion) * (1 - float(clustering.locked[rows].mean()))


def row_values(clustering: Clustering, rows: NDArray[np.int64] | None = None) -> bytes:
    """Labels, runners-up, confidence, margin, outlier score, typicality and locks of all rows or of ``rows``.

    Little-endian uint16 arrays, one after the other; scores in 1/10000. The locks are uint8.

    >>> c = Clustering(["a", "b"], [0, 1], confidence=[0.5, 1.0])
    >>> np.frombuffer(row_values(c)[:12], "<u2").tolist()
    [0, 1, 65535, 65535, 5000, 10000]
    """
    rows = np.arange(len(clustering)) if rows is None else rows
    scores = (clustering.confidence, clustering.margin, clustering.outlier, _typicality_rank(clustering))
    runner_up = clustering.runner_up[rows]
    arrays = [clustering.labels[rows], np.where(runner_up < 0, NO_CLUSTER, runner_up)]
    arrays += [np.rint(np.clip(score[rows], 0, 1) * 10_000) for score in scores]
    packed = b"".join(array.astype("<u2").tobytes() for array in arrays)
    return packed + clustering.locked[rows].astype(np.uint8).tobytes()


def _typicality_rank(clustering: Clustering) -> NDArray[np.float64]:
    """(n,) 1 for the most typical row of its cluster, falling evenly towards 0 for the least typical one."""
    ranks = np.zeros(len(clustering))
    for cluster in clustering.clusters:
        members = clustering.representatives(cluster, len(clustering))
        ranks[members] = 1 - np.arange(len(members)) / len(members)
    return ranks


def duplicate_groups(clustering: Clustering, page_index: NDArray[np.int64]) -> list[list[int]]:
    """Groups of near-duplicates, largest first, by their indices on the page; those with one member there are left out.

    >>> c = Clustering(["a", "b", "c", "d", "e"], [0] * 5, groups=[0, 1, 0, 1, 1])
    >>> duplicate_groups(c, np.arange(5))
    [[1, 3, 4], [0, 2]]
    """
    groups = [page_index[rows] for rows in clustering.duplicates()]
    listed = [group[group >= 0].tolist() for group in groups]
    return sorted((group for group in listed if len(group) > 1), key=lambda group: -len(group))


def level_values(clustering: Clustering, levels: Levels, page_index: NDArray[np.int64]) -> dict[str, Any]:
    """The tree of coarser and finer clusters as the page reads it, for a clustering as fitted.

    ``leaf`` holds the leaf of each row on the page, as uint16; ``names``, those of the finest level.
    """
    if clustering.embedding is None:
        raise ValueError("The levels of a page need the embedding of its rows, but this clustering has none.")
    leaves = levels.nearest_leaves(clustering.embedding, clustering.labels)
    leaf = np.empty((page_index >= 0).sum(), "<u2")
    leaf[page_index[page_index >= 0]] = np.where(leaves < 0, NO_CLUSTER, leaves)[page_index >= 0]
    return {
        "proposed": levels.proposed,
        "stable": levels.stable,
        "leaves": levels.leaves,
        "merges": levels.merges,
        "sizes": np.bincount(leaves[leaves >= 0], minlength=levels.finest).tolist(),
        "names": clustering.at_level(levels, levels.finest).names,
        "leaf": pack(leaf.tobytes()),
    }


def headline(n: int, k: int, item: str) -> str:
    """Heading of the page.

    >>> headline(1200, 1, "image")
    '1,200 images in 1 cluster'
    """
    return f"{n:,} {item}{'' if n == 1 else 's'} in {k:,} cluster{'' if k == 1 else 's'}"


def pack(values: bytes) -> str:
    """Base64 of binary values."""
    return base64.b64encode(values).decode("ascii")
