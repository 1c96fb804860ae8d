"""Edits that lead to fewer or more clusters."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np

from cgmcr2.clustering import Clustering
from cgmcr2.model.levels import Levels

Split = Callable[[int, int], list[list[int]]]


def level_edits(
    clustering: Clustering, m: int, split: Split, levels: Levels | None = None
) -> list[tuple[str, dict[str, Any]]]:
    """The merges or splits that lead to m clusters; excluded images are neither merged nor split.

    With the ``levels`` of the run, which edits that move images invalidate, they are those of its tree.

    Fewer clusters: the tree of the clusters, cut at m branches; the largest cluster of a branch keeps its number and
    name. More clusters: the clusters of lowest cohesion are split into two; if m is more than twice as large, into
    three, and so on. ``split(cluster, parts)`` proposes the rows of all parts but the largest.

    >>> c = Clustering(["a", "b", "c"], [0, 1, 2], embedding=[[1, 0], [0.9, 0.4], [0, 1]])
    >>> level_edits(c, 2, lambda cluster, parts: [])
    [('merge', {'clusters': [0, 1]})]
    """
    if levels is not None and m <= levels.finest and clustering.embedding is not None:
        return _tree_edits(clustering, clustering.at_level(levels, m))
    included = clustering.included()
    sizes = clustering.sizes()
    clusters = included.clusters
    if not 1 <= m <= len(included):
        raise ValueError(f"{m} clusters were asked for; {len(included):,} images can be in 1 to {len(included):,}.")
    if m <= len(clusters):
        groups = included.hierarchy().groups(m)
        return [("merge", {"clusters": sorted(group, key=lambda c: -sizes[c])}) for group in groups if len(group) > 1]
    parts = _split_numbers(clustering, clusters, m - len(clusters))
    return [("split", {"cluster": cluster, "parts": split(cluster, number)}) for cluster, number in parts.items()]


def _tree_edits(clustering: Clustering, target: Clustering) -> list[tuple[str, dict[str, Any]]]:
    """The merges or splits that lead to a level of the same tree."""
    sizes, groups = clustering.sizes(), defaultdict[int, list[int]](list)
    for cluster, kept in target.merged.items():
        groups[kept].append(cluster)
    edits: list[tuple[str, dict[str, Any]]] = [
        ("merge", {"clusters": [kept, *sorted(gone, key=lambda c: -sizes[c])]}) for kept, gone in groups.items()
    ]
    for cluster in clustering.clusters:
        parts = np.unique(target.labels[clustering.rows(cluster)])
        if len(parts) > 1:
            rows = [target.rows(int(part)).tolist() for part in parts if part != cluster]
            edits.append(("split", {"cluster": cluster, "parts": rows}))
    return edits


def _split_numbers(clustering: Clustering, clusters: list[int], more: int) -> dict[int, int]:
    """The number of parts of each cluster that is split so that there are ``more`` clusters, lowest cohesion first."""
    sizes = clustering.sizes()
    if clustering.energy is None:
        raise ValueError("More clusters need the embedding of the images, but this run has none.")
    energy = {cluster: float(clustering.energy[clustering.rows(cluster)].mean()) for cluster in clusters}
    order = sorted((c for c in clusters if sizes[c] >= 3), key=lambda c: energy[c])
    parts = dict.fromkeys(order, 1)
    while more and order:
        for cluster in order:
            if more and parts[cluster] + 1 < sizes[cluster]:
                parts[cluster] += 1
                more -= 1
        order = [cluster for cluster in order if parts[cluster] + 1 < sizes[cluster]]
    if more:
        raise ValueError("The clusters are too small to be split into so many; ask for fewer.")
    return {cluster: number for cluster, number in parts.items() if number > 1}
