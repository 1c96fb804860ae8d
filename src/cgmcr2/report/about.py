"""Values of the section "About" of the page: similarity, training, quality, settings and unreadable files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from cgmcr2.clustering import Clustering
from cgmcr2.clustering.geometry import ClusterSummary, summarize_clusters
from cgmcr2.features.sources import FeatureSource, read_rows

from .choice import choice_chart
from .curves import HEIGHT, WIDTH, curves
from .limits import PageLimits
from .similarity import absolute_cosines, heatmap, sample_by_cluster

LABELS = {  # of entries of run.json whose keys do not explain themselves
    "encoder": "encoder fingerprint",
    "encoder_name": "encoder",
    "features": "feature fingerprint",
    "images": "image fingerprint",
    "data": "data folder",
}
SHOWN_ELSEWHERE = ("protocol", "choice", "stability", "format")  # not repeated in the settings


def about_values(
    clustering: Clustering,
    *,
    features: FeatureSource | None = None,
    metrics: Sequence[Mapping[str, Any]] = (),
    settings: Mapping[str, Any] | None = None,
    errors: Sequence[tuple[str, str]] = (),
    summaries: Sequence[ClusterSummary] | None = None,
    limits: PageLimits | None = None,
    seed: int = 0,
) -> dict[str, Any]:
    """Values for the template of the page; the parameters are those of :func:`cgmcr2.report.write_report`."""
    settings, limits = settings or {}, limits or PageLimits()
    return {
        "names": clustering.names,
        "n": len(clustering),
        "summaries": summarize_clusters(clustering) if summaries is None else summaries,
        "has_stability": "stability" in settings,
        "similarities": similarity_figures(clustering, features, limits.similarity_rows, seed=seed),
        "similarity_rows": limits.similarity_rows,
        "curves": curves(metrics),
        "curve_box": (WIDTH, HEIGHT),
        "choice": choice_chart(settings.get("choice")),
        "hierarchy": hierarchy_text(clustering),
        "settings": settings_groups({k: v for k, v in settings.items() if k not in SHOWN_ELSEWHERE}),
        "protocol": settings.get("protocol", ""),
        "errors": sorted(errors),  # an interrupted run may have read the files in another order
    }


def hierarchy_text(clustering: Clustering) -> str:
    """The tree of the clusters as lines of text; empty without an embedding or for fewer than three clusters."""
    if clustering.embedding is None or len(clustering.clusters) < 3:
        return ""
    return clustering.hierarchy().text(clustering.names)


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
