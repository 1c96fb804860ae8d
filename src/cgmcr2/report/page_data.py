"""Contents of the report page: figures, galleries and per-row values, sampled and packed to keep the page small."""

from __future__ import annotations

import base64
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray

from cgmcr2._random import sample_rows
from cgmcr2.clustering import Clustering
from cgmcr2.clustering.geometry import ClusterSummary
from cgmcr2.features.sources import FeatureSource, read_rows
from cgmcr2.images import Catalog
from cgmcr2.images.sources import FileSource
from cgmcr2.report.similarity import absolute_cosines, heatmap, sample_by_cluster

LABELS = {  # of entries of run.json whose keys do not explain themselves
    "encoder": "encoder fingerprint",
    "encoder_name": "encoder",
    "features": "feature fingerprint",
    "images": "image fingerprint",
    "data": "data folder",
}
SMALL_MARGIN = 0.1  # rows below it are counted as uncertain


class KeyFigure(NamedTuple):
    """A number at the top of the page, its label, and a tooltip that explains it."""

    value: str
    label: str
    explanation: str


def listed_rows(n: int, thumbnail_rows: NDArray[np.int64], max_rows: int, *, seed: int = 0) -> NDArray[np.int64]:
    """Rows on the page, sorted: all n, or those with thumbnails and a random sample of the others.

    >>> listed_rows(4, np.array([2]), max_rows=10)
    array([0, 1, 2, 3])
    >>> len(listed_rows(100, np.array([2]), max_rows=10))
    10
    """
    if n <= max_rows:
        return np.arange(n)
    others = np.setdiff1d(np.arange(n), thumbnail_rows)
    sample = others[sample_rows(len(others), max_rows - len(thumbnail_rows), np.random.default_rng(seed))]
    return np.sort(np.concatenate([thumbnail_rows, sample]))


def cluster_data(
    clustering: Clustering,
    summaries: Sequence[ClusterSummary],
    page_index: NDArray[np.int64],
) -> dict[str, Any]:
    """Names, sizes, confidence and galleries of the clusters.

    A gallery lists all members of its cluster that are on the page, by their indices there: ``page_index (n,)`` is
    the index of each row of the clustering, -1 if it is not on the page.
    """
    sizes = clustering.sizes().tolist()
    galleries: dict[str, list[list[int]]] = {"typical": [], "uncertain": []}
    for cluster, size in enumerate(sizes):
        typical = clustering.representatives(cluster, size)
        uncertain = clustering.uncertain(cluster, size)
        for kind, rows in (("typical", typical), ("uncertain", uncertain)):
            indices = page_index[rows]
            galleries[kind].append(indices[indices >= 0].tolist())
    confused_with = {summary.cluster: summary.confused_with for summary in summaries}
    return {
        "names": clustering.names,
        "sizes": sizes,
        "median_confidence": [_median(clustering.confidence[clustering.rows(c)]) for c in range(clustering.n_clusters)],
        "confused_with": [confused_with.get(c) for c in range(clustering.n_clusters)],
        **galleries,
    }


def row_data(clustering: Clustering, rows: NDArray[np.int64]) -> dict[str, Any]:
    """Ids, clusters, second best clusters and scores (in 1/10000) of the rows on the page."""
    runner_up = None
    if clustering.probabilities is not None and clustering.n_clusters > 1:
        others = np.array(clustering.probabilities[rows])
        others[np.arange(len(rows)), clustering.labels[rows]] = -1
        runner_up = pack(others.argmax(axis=1))
    return {
        "ids": [clustering.ids[row] for row in rows],
        "labels": pack(clustering.labels[rows]),
        "runner_up": runner_up,
        "confidence": pack(np.clip(clustering.confidence[rows], 0, 1) * 10_000),
        "margin": pack(np.clip(clustering.margin[rows], 0, 1) * 10_000),
        "outlier": pack(np.clip(clustering.outlier[rows], 0, 1) * 10_000),
    }


def duplicate_groups(clustering: Clustering, page_index: NDArray[np.int64]) -> list[list[int]]:
    """Groups of near-duplicates, largest first, by their indices on the page; those with one member there are left out.

    >>> c = Clustering(["a", "b", "c", "d", "e"], [0] * 5, groups=[0, 1, 0, 1, 1])
    >>> duplicate_groups(c, np.arange(5))
    [[1, 3, 4], [0, 2]]
    """
    groups = [page_index[rows] for rows in clustering.duplicates()]
    listed = [group[group >= 0].tolist() for group in groups]
    return sorted((group for group in listed if len(group) > 1), key=lambda group: -len(group))


def headline(n: int, k: int, item: str) -> str:
    """Heading of the page.

    >>> headline(1200, 1, "image")
    '1,200 images in 1 cluster'
    """
    return f"{n:,} {item}{'' if n == 1 else 's'} in {k:,} cluster{'' if k == 1 else 's'}"


def hierarchy_text(clustering: Clustering) -> str:
    """The tree of the clusters as lines of text; empty without an embedding or for fewer than three clusters."""
    if clustering.embedding is None or len(clustering.clusters) < 3:
        return ""
    return clustering.hierarchy().text(clustering.names)


def key_figures(clustering: Clustering, items: str = "images", stability: float | None = None) -> list[KeyFigure]:
    """Stability, cluster sizes, confidence and number of uncertain ``items`` ("images" or "rows")."""
    if not len(clustering):
        return [KeyFigure("0", items, "")]
    sizes = clustering.sizes()[clustering.clusters]
    figures = [
        KeyFigure(f"{sizes.min():,} to {sizes.max():,}", f"{items} per cluster", "Smallest and largest cluster."),
        KeyFigure(
            f"{100 * _median(clustering.confidence):.0f} %",
            "median confidence",
            "Confidence is the probability that the model gives to the assigned cluster.",
        ),
        KeyFigure(
            f"{int((clustering.margin < SMALL_MARGIN).sum()):,}",
            f"uncertain {items}",
            f"Margin below {100 * SMALL_MARGIN:.0f} %: the second best cluster is almost as probable.",
        ),
    ]
    if stability is not None:
        explanation = f"Share of {items} on which independent partitions of the same data agree with these clusters."
        figures.insert(0, KeyFigure(f"{100 * stability:.0f} %", "stability", explanation))
    return figures


def similarity_figures(
    clustering: Clustering, features: FeatureSource | None, max_rows: int, *, seed: int = 0
) -> list[dict[str, str]]:
    """Similarity matrices of a sample of rows, for those of X, Z and Pi that are available."""
    rows = sample_by_cluster(clustering, max_rows, seed=seed)
    if len(rows) < 2:
        return []
    disk_order = np.sort(rows)
    cluster_order = np.searchsorted(disk_order, rows)
    figures = []
    for name, caption, array in (
        ("|XXᵀ|", "input features", features),
        ("|ZZᵀ|", "learned embedding", clustering.embedding),
        ("|ΠΠᵀ|", "cluster memberships", clustering.probabilities),
    ):
        if array is not None:
            values = read_rows(array, disk_order)[cluster_order]
            memberships = array is clustering.probabilities
            similarity = np.abs(values @ values.T) if memberships else absolute_cosines(values)
            figures.append({"name": name, "caption": caption, "src": heatmap(similarity, clustering.labels[rows])})
    return figures


def settings_groups(settings: Mapping[str, Any], title: str = "") -> list[tuple[str, list[tuple[str, str]]]]:
    """Nested settings as titled lists of (name, value), plain values first.

    >>> settings_groups({"k": 3, "model": {"hidden_width": 64, "bias": True}})
    [('', [('k', '3')]), ('model', [('hidden width', '64'), ('bias', 'yes')])]
    """
    plain = [(_label(key), _text(value)) for key, value in settings.items() if not isinstance(value, Mapping)]
    groups = [(title, plain)] if plain else []
    for key, value in settings.items():
        if isinstance(value, Mapping):
            groups += settings_groups(value, " · ".join(filter(None, [title, _label(key)])))
    return groups


def image_base_url(images: Catalog | None, page: Path) -> str | None:
    """URL of the folder of the original images relative to ``page``; None if they are not single files."""
    if images is None or not isinstance(images.source, FileSource):
        return None
    try:
        relative = os.path.relpath(images.source.base, page.absolute().parent)
    except ValueError:  # on another Windows drive
        return None
    return "./" + quote(os.fsencode(relative.replace(os.sep, "/")))


def pack(values: NDArray[Any]) -> str:
    """Encode integers below 65,536 as base64 of little-endian uint16, which the page reads as a typed array.

    >>> pack(np.array([1, 258]))
    'AQACAQ=='
    """
    return base64.b64encode(np.rint(values).astype("<u2").tobytes()).decode("ascii")


def _label(key: str) -> str:
    return LABELS.get(key, key.replace("_", " "))


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return format(value, ".6g")
    if isinstance(value, list):
        text = ", ".join(_text(item) for item in value[:12])
        return f"{text}, … ({len(value):,} in total)" if len(value) > 12 else text or "none"
    return "none" if value is None else str(value)


def _median(values: NDArray[np.float32]) -> float:
    return round(float(np.median(values)), 4) if len(values) else 0.0
