"""A tree over the clusters, by the angles between their subspaces."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .geometry import second_moment, split_by_cluster

MAX_ORDERED = 500  # optimal leaf ordering takes time cubic in the number of clusters


@dataclasses.dataclass(frozen=True)
class Hierarchy:
    """A tree over m clusters, made by ``Clustering.hierarchy``.

    Attributes
    ----------
    clusters : numbers of the m clusters, ascending
    angles : (m, m) angles between their subspaces in degrees: 0 equal, 90 orthogonal
    linkage : (m - 1, 4) the tree in scipy's format, for ``scipy.cluster.hierarchy.dendrogram``; heights are mean angles
    order : the clusters in the order of the leaves, so that similar ones are adjacent
    """

    clusters: list[int]
    angles: NDArray[np.float64]
    linkage: NDArray[np.float64]
    order: list[int]

    def groups(self, m: int) -> list[list[int]]:
        """The clusters in m groups: the tree, cut at m branches."""
        groups = {i: [cluster] for i, cluster in enumerate(self.clusters)}
        if not 1 <= m <= len(groups):
            raise ValueError(f"{len(groups)} clusters cannot be merged into {m}; ask for 1 to {len(groups)}.")
        for step, (a, b) in enumerate(self.linkage[: len(groups) - m, :2].astype(int).tolist()):
            groups[len(self.clusters) + step] = groups.pop(a) + groups.pop(b)
        return [sorted(group) for group in groups.values()]

    def text(self, names: list[str]) -> str:
        """The tree as indented text, one line per cluster or merge.

        >>> Z = np.repeat([[1.0, 0, 0], [0.9, 0.4, 0], [0, 0, 1]], 4, axis=0)
        >>> print(build_hierarchy(Z, np.repeat([0, 1, 2], 4), 3).text(["cats", "tigers", "boats"]))
        90°
          boats
          24°
            tigers
            cats
        """
        m = len(self.clusters)

        def lines(node: int, depth: int) -> list[str]:
            if node < m:
                return ["  " * depth + names[self.clusters[node]]]
            a, b, height, _ = self.linkage[node - m]
            return [f"{'  ' * depth}{height:.0f}°", *lines(int(a), depth + 1), *lines(int(b), depth + 1)]

        return "\n".join(lines(2 * m - 2, 0)) if m else ""


def build_hierarchy(Z: NDArray[Any], labels: NDArray[np.int64], k: int) -> Hierarchy:
    """The tree of the non-empty clusters of the unit rows ``Z (n, d)``, with ``labels (n,)`` in 0 ... k-1.

    The subspace of a cluster is its second moment ``C = mean(z z')``. The squared cosine between two subspaces is
    ``<C_a, C_b> / (|C_a| |C_b|)``, which for lines is the squared cosine of their angle. Branches are merged by average
    linkage of the angles.
    """
    from scipy.cluster.hierarchy import leaves_list, linkage
    from scipy.spatial.distance import squareform

    clusters = [int(c) for c in np.flatnonzero(np.bincount(labels, minlength=k))]
    if len(clusters) < 2:
        return Hierarchy(clusters, np.zeros((len(clusters),) * 2), np.empty((0, 4)), clusters)
    members = split_by_cluster(labels, k)
    moments = [second_moment(Z[members[c]]).ravel() for c in clusters]
    unit = np.stack([moment / max(float(np.linalg.norm(moment)), 1e-12) for moment in moments])
    angles = np.degrees(np.arccos(np.sqrt(np.clip(unit @ unit.T, 0, 1))))
    angles = (angles + angles.T) / 2
    np.fill_diagonal(angles, 0)
    tree = linkage(squareform(angles, checks=False), "average", optimal_ordering=len(clusters) <= MAX_ORDERED)
    return Hierarchy(clusters, angles, tree, [clusters[i] for i in leaves_list(tree)])
