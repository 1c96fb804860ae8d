"""Which clusters are near each other: the angles between their subspaces, and the tree that these make."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from numpy.typing import NDArray

ORDERED = 500  # clusters, at most, whose best order in the tree is sought: that takes time with their cube


@dataclasses.dataclass(frozen=True)
class Hierarchy:
    """A tree over m clusters; ``Clustering.hierarchy`` makes it.

    Attributes
    ----------
    clusters : m numbers of clusters, in their order
    angles : (m, m) angles between their subspaces in degrees: 0 the same, 90 orthogonal
    linkage : (m - 1, 4) the tree as scipy has it, for ``scipy.cluster.hierarchy.dendrogram``; heights are mean angles
    order : the clusters in the order of the tree's leaves: near ones stand side by side
    """

    clusters: list[int]
    angles: NDArray[np.float64]
    linkage: NDArray[np.float64]
    order: list[int]

    def groups(self, m: int) -> list[list[int]]:
        """The clusters in m groups: the tree, cut where m branches are left."""
        groups = {i: [cluster] for i, cluster in enumerate(self.clusters)}
        if not 1 <= m <= len(groups):
            raise ValueError(f"{len(groups)} clusters cannot be joined into {m}; ask for 1 to {len(groups)}.")
        for step, (a, b) in enumerate(self.linkage[: len(groups) - m, :2].astype(int).tolist()):
            groups[len(self.clusters) + step] = groups.pop(a) + groups.pop(b)
        return [sorted(group) for group in groups.values()]

    def text(self, names: list[str]) -> str:
        """The tree as indented lines of text, a line a cluster or a join.

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
    """The tree of the clusters that have rows; ``Z (n, d)`` unit rows, ``labels (n,)`` in 0 ... k-1.

    A cluster's subspace is its second moment ``C = mean(z z')``, its principal directions weighted by their energy; the
    squared cosine between two of them is ``<C_a, C_b> / |C_a| |C_b|``, so that lines have the angle that they
    enclose. Branches are joined by their mean angle.
    """
    from scipy.cluster.hierarchy import leaves_list, linkage
    from scipy.spatial.distance import squareform

    clusters = [int(c) for c in np.flatnonzero(np.bincount(labels, minlength=k))]
    moments = [second_moment(Z[labels == c]).ravel() for c in clusters]
    if len(clusters) < 2:
        return Hierarchy(clusters, np.zeros((len(clusters),) * 2), np.empty((0, 4)), clusters)
    unit = np.stack([moment / max(float(np.linalg.norm(moment)), 1e-12) for moment in moments])
    angles = np.degrees(np.arccos(np.sqrt(np.clip(unit @ unit.T, 0, 1))))
    angles = (angles + angles.T) / 2
    np.fill_diagonal(angles, 0)
    tree = linkage(squareform(angles, checks=False), "average", optimal_ordering=len(clusters) <= ORDERED)
    return Hierarchy(clusters, angles, tree, [clusters[i] for i in leaves_list(tree)])


def second_moment(Z: NDArray[Any]) -> NDArray[np.float64]:
    """``mean(z z')``, (d, d), of the rows of ``Z (m, d)``."""
    rows = np.asarray(Z, dtype=np.float64)
    return rows.T @ rows / max(len(rows), 1)
