"""The levels of a model: a nested tree of clusters, from coarse to fine, through the clusters that it predicts.

A level is the tree, cut at m clusters. ``cgmcr2.consensus.levels`` builds the tree. It is stored as ``levels.json``
beside the network; new rows are assigned to its leaves by the nearest centroid in the embedding.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import numpy.typing as npt

from cgmcr2._files import read_json, write_json

Float32 = npt.NDArray[np.float32]
Int64 = npt.NDArray[np.int64]

FILE_NAME = "levels.json"


@dataclasses.dataclass(frozen=True)
class Levels:
    """A tree of clusters, as ``levels.json`` stores it.

    >>> tree = Levels(2, (2,), leaves=(0, 1, 2), parents=(0, 1, 0), merges=((0, 2), (1, 0)), centroids=((1, 0),) * 3)
    >>> [tree.numbers(m).tolist() for m in (3, 2, 1)]
    [[0, 1, 2], [0, 1, 0], [1, 1, 1]]
    """

    proposed: int  # number of non-empty clusters of the fitted partition
    stable: tuple[int, ...]  # numbers of clusters at which a cut is stable, ascending; includes the proposed one
    leaves: tuple[int, ...]  # cluster of each of the L leaves at the finest level
    parents: tuple[int, ...]  # cluster of each leaf in the fitted partition
    merges: tuple[tuple[int, int], ...]  # L - 1 pairs from fine to coarse: the first cluster absorbs the second
    centroids: tuple[tuple[float, ...], ...]  # (L, d) of the leaves in the embedding

    @property
    def finest(self) -> int:
        """The largest number of clusters L."""
        return len(self.leaves)

    def numbers(self, m: int) -> Int64:
        """(L,) the cluster of each leaf at the level of m clusters."""
        self.check(m)
        target = dict(zip(self.leaves, self.leaves, strict=True))
        for kept, gone in reversed(self.merges[: self.finest - m]):  # from coarse to fine, so that one pass follows all
            target[gone] = target[kept]
        return np.array([target[leaf] for leaf in self.leaves], dtype=np.int64)

    def nearest_leaves(self, Z: Float32, labels: Int64) -> Int64:
        """(n,) for each unit row of ``Z (n, d)``, the leaf of its fitted cluster ``labels (n,)`` of nearest centroid.

        A leaf is given by its position; -1 if the cluster has none.
        """
        C = np.array(self.centroids, dtype=np.float32)
        parents = np.array(self.parents, dtype=np.int64)
        half = 0.5 * np.square(C).sum(1)
        nearest = np.full(len(labels), -1, dtype=np.int64)
        for cluster in np.unique(labels):
            rows, candidates = np.flatnonzero(labels == cluster), np.flatnonzero(parents == cluster)
            if len(candidates):
                nearest[rows] = candidates[(Z[rows] @ C[candidates].T - half[candidates]).argmax(1)]
        return nearest

    def labels(self, Z: Float32, labels: Int64, m: int) -> Int64:
        """(n,) clusters at the level of m clusters, for rows of embedding ``Z (n, d)`` and fitted ``labels (n,)``."""
        leaves = self.nearest_leaves(Z, labels)
        return np.where(leaves < 0, labels, self.numbers(m)[leaves])

    def check(self, m: int) -> None:
        """Raise ``ValueError`` unless there is a level of m clusters."""
        if not 1 <= m <= self.finest:
            raise ValueError(f"There is no level of {m:,} clusters; the levels have 1 to {self.finest:,}.")


def write_levels(folder: Path, levels: Levels) -> None:
    """Write ``levels.json``."""
    write_json(folder / FILE_NAME, dataclasses.asdict(levels))


def read_levels(folder: Path) -> Levels:
    """Read ``levels.json``."""
    path = folder / FILE_NAME
    if not path.is_file():
        raise FileNotFoundError(f"{folder.parent} has no levels; only a run with -k auto has them.")
    return read_json(path, Levels, advice="restore the file, or repeat the run in another folder")
