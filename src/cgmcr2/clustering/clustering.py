"""The clusters of a set of images, as an immutable value."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cgmcr2._arrays import confidence_and_margin
from cgmcr2._checksums import FILE_NAME as CHECKSUMS

from . import io
from .draft import Draft, cluster_number, row_numbers
from .geometry import cluster_energy, split_by_cluster
from .hierarchy import Hierarchy, build_hierarchy
from .io import COLUMNS, default_name

if TYPE_CHECKING:
    import pandas as pd

BLOCK_ROWS = 65_536  # rows of the probabilities held at once: they may be larger than memory


class Clustering:
    """The clusters of n images. Immutable: ``rename``, ``merge``, ``move`` and the like return a new ``Clustering``.

    Clusters keep their numbers. Merging 5 into 3 leaves cluster 5 empty and does not renumber 7, so a number in a
    report, in a note or from the model keeps its meaning; ``merged`` is then ``{5: 3}``.

    Parameters
    ----------
    ids : n distinct strings, such as the paths of the images within their source
    labels : (n,) cluster of each image, in 0 ... k-1; a cluster may be empty
    confidence : (n,) probability of that cluster; default: from ``probabilities``, or 1
    margin : (n,) confidence minus the largest probability of another cluster; default: from ``probabilities``, or 1
    outlier : (n,) how unusual the image is for its cluster, 0 to 1; default: 0
    embedding : (n, d) unit rows
    probabilities : (n, k) memberships; rows sum to 1
    names : k distinct names; default: "Cluster 0", "Cluster 1", ...
    merged : the target of each cluster that was merged into another
    groups : (n,) row of the first image of each image's group of near-duplicates; default: not searched for
    locked : (n,) whether someone has confirmed the cluster of the image; default: none
    excluded : number of the cluster of images that belong to none; default: no such cluster

    Examples
    --------
    >>> c = Clustering(["a.jpg", "b.jpg", "c.jpg"], [0, 1, 1], probabilities=[[0.9, 0.1], [0.2, 0.8], [0.4, 0.6]])
    >>> c.sizes()
    array([1, 2])
    >>> c = c.rename(1, "dogs")
    >>> c.names
    ['Cluster 0', 'dogs']
    >>> [c.ids[row] for row in c.uncertain(n=1)]
    ['c.jpg']
    """

    def __init__(
        self,
        ids: Sequence[str],
        labels: ArrayLike,
        *,
        confidence: ArrayLike | None = None,
        margin: ArrayLike | None = None,
        outlier: ArrayLike | None = None,
        embedding: ArrayLike | None = None,
        probabilities: ArrayLike | None = None,
        names: Sequence[str] | None = None,
        merged: Mapping[int, int] | None = None,
        groups: ArrayLike | None = None,
        locked: ArrayLike | None = None,
        excluded: int | None = None,
    ) -> None:
        self.ids = list(ids)
        n = len(self.ids)
        self.labels: NDArray[np.int64] = _frozen(labels, np.int64, n, 1, "labels")
        self.embedding = None if embedding is None else _frozen(embedding, np.float32, n, 2, "embedding")
        self.probabilities = (
            None if probabilities is None else _frozen(probabilities, np.float32, n, 2, "probabilities")
        )
        k = self.labels.max(initial=-1) + 1 if self.probabilities is None else self.probabilities.shape[1]
        self.names = list(names) if names is not None else [default_name(c) for c in range(k)]
        self.merged = dict(merged or {})
        self.groups = None if groups is None else _frozen(groups, np.int64, n, 1, "groups")
        self.locked: NDArray[np.bool_] = _frozen(np.zeros(n) if locked is None else locked, np.bool_, n, 1, "locked")
        self.excluded = excluded
        self._check()
        if confidence is None or margin is None:
            from_probabilities = _confidence_and_margin(self.labels, self.probabilities)
            confidence = from_probabilities[0] if confidence is None else confidence
            margin = from_probabilities[1] if margin is None else margin
        self.confidence: NDArray[np.float32] = _frozen(confidence, np.float32, n, 1, "confidence")
        self.margin: NDArray[np.float32] = _frozen(margin, np.float32, n, 1, "margin")
        outlier = np.zeros(n, np.float32) if outlier is None else outlier
        self.outlier: NDArray[np.float32] = _frozen(outlier, np.float32, n, 1, "outlier")

    def _check(self) -> None:
        k = len(self.names)
        if len(set(self.ids)) != len(self.ids):
            raise ValueError("Two images have the same id; ids must be distinct.")
        if len(self.labels) and not (self.labels.min() >= 0 and self.labels.max() < k):
            low, high = self.labels.min(), self.labels.max()
            raise ValueError(f"Labels range from {low} to {high}, but with {k} names they must be in 0 ... {k - 1}.")
        if self.probabilities is not None and self.probabilities.shape[1] != k:
            raise ValueError(f"The probabilities have {self.probabilities.shape[1]} columns, but there are {k} names.")
        for name in self.names:
            if not name.strip():
                raise ValueError("The name of a cluster is empty; give it at least one visible character.")
        name, count = Counter(self.names).most_common(1)[0] if k else ("", 1)
        if count > 1:
            raise ValueError(f"Two clusters are called {name!r}; choose another name, or merge them.")
        if self.excluded is not None and not 0 <= self.excluded < k:
            raise ValueError(f"excluded is {self.excluded}, but clusters are 0 ... {k - 1}.")
        if self.groups is not None and not _are_first_rows(self.groups):
            raise ValueError("groups must hold the first row of the group of each row.")

    @property
    def n_clusters(self) -> int:
        """Number of clusters k, including empty ones."""
        return len(self.names)

    @property
    def clusters(self) -> list[int]:
        """Numbers of the non-empty clusters.

        >>> Clustering(["a", "b"], [2, 0]).clusters
        [0, 2]
        """
        return [int(c) for c in np.flatnonzero(self.sizes())]

    def __len__(self) -> int:
        return len(self.ids)

    def __repr__(self) -> str:
        return f"Clustering({len(self):,} images, {len(self.clusters)} clusters)"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Clustering):
            return NotImplemented
        pairs = ((getattr(self, name), getattr(other, name)) for name in _FIELDS)
        return all(
            type(a) is type(b) and (np.array_equal(a, b) if isinstance(a, np.ndarray) else a == b) for a, b in pairs
        )

    __hash__ = None  # type: ignore[assignment]  # it holds arrays

    def _with(self, **changes: Any) -> Clustering:
        return Clustering(**{**{name: getattr(self, name) for name in _FIELDS}, **changes})

    # --- inspecting --------------------------------------------------------------------------------------------------

    @cached_property
    def energy(self) -> NDArray[np.float64] | None:
        """(n,) mean squared cosine of each image with its cluster, computed once; None without an embedding."""
        return None if self.embedding is None else cluster_energy(self.embedding, self.labels)

    def sizes(self) -> NDArray[np.int64]:
        """Number of images in each cluster, (k,).

        >>> Clustering(["a", "b"], [1, 1]).sizes()
        array([0, 2])
        """
        return np.bincount(self.labels, minlength=self.n_clusters)

    def typicality(self, cluster: int) -> NDArray[np.float32]:
        """How typical each image of the cluster is, in the order of ``rows(cluster)``; larger is more typical.

        The mean squared cosine with the members of the cluster times the confidence. Without an embedding, the
        confidence only.
        """
        rows = self.rows(cluster)
        if self.energy is None:
            return self.confidence[rows]
        return np.asarray(self.energy[rows] * self.confidence[rows], dtype=np.float32)

    def rows(self, cluster: int | str) -> NDArray[np.int64]:
        """Row numbers of the images of a cluster, ascending.

        >>> Clustering(["a", "b", "c"], [1, 0, 1]).rows(1)
        array([0, 2])
        """
        return self._members[self.number(cluster)]

    @cached_property
    def _members(self) -> list[NDArray[np.int64]]:
        return split_by_cluster(self.labels, self.n_clusters)

    def representatives(self, cluster: int, n: int = 10) -> NDArray[np.int64]:
        """Row numbers of the n most typical images of a cluster, most typical first.

        >>> c = Clustering(["a", "b", "c"], [0, 0, 0], embedding=[[1, 0], [0.8, 0.6], [0.6, 0.8]])
        >>> [c.ids[row] for row in c.representatives(0, n=1)]
        ['b']
        """
        return self.rows(cluster)[np.argsort(-self.typicality(cluster), kind="stable")[:n]]

    def uncertain(self, cluster: int | None = None, n: int = 10) -> NDArray[np.int64]:
        """Row numbers of the n images of smallest margin, smallest first, in one cluster or in all.

        >>> Clustering(["a", "b"], [0, 1], confidence=[0.5, 0.6], margin=[0.3, 0.2]).uncertain(n=1)
        array([1])
        """
        rows = np.arange(len(self)) if cluster is None else self.rows(cluster)
        return rows[np.argsort(self.margin[rows], kind="stable")[:n]]

    def duplicates(self) -> list[NDArray[np.int64]]:
        """Row numbers of each group of near-duplicates, in the order of the first image of each group.

        >>> Clustering(["a", "b", "c"], [0, 1, 0], groups=[0, 1, 0]).duplicates()
        [array([0, 2])]
        """
        if self.groups is None:
            return []
        copies = np.flatnonzero(np.bincount(self.groups)[self.groups] > 1)
        if not len(copies):
            return []
        order = copies[np.argsort(self.groups[copies], kind="stable")]
        return np.split(order, np.flatnonzero(np.diff(self.groups[order])) + 1)

    def duplicate_of(self) -> list[str]:
        """Id of the first image of each image's group of near-duplicates; empty for that image and for unique ones.

        >>> Clustering(["a", "b", "c"], [0, 1, 0], groups=[0, 1, 0]).duplicate_of()
        ['', '', 'a']
        """
        groups = range(len(self)) if self.groups is None else self.groups.tolist()
        return ["" if row == first else self.ids[first] for row, first in enumerate(groups)]

    def number(self, cluster: int | str) -> int:
        """The number of a cluster, given by number or name."""
        return cluster_number(cluster, self.names)

    def hierarchy(self) -> Hierarchy:
        """The tree of the clusters by the angles between their subspaces.

        >>> c = Clustering(["a", "b", "c"], [0, 1, 2], embedding=[[1, 0], [0, 1], [0.9, 0.4]])
        >>> c.hierarchy().groups(2)
        [[1], [0, 2]]
        """
        if self.embedding is None:
            raise ValueError("A hierarchy needs the embedding, but this clustering has none; pass embedding=...")
        return build_hierarchy(self.embedding, self.labels, self.n_clusters)

    def to_frame(self) -> pd.DataFrame:
        """A pandas data frame with one row per image and the columns of ``labels.csv``."""
        try:
            import pandas as pd
        except ImportError as error:
            raise ImportError("to_frame needs pandas; install it with: pip install 'cgmcr2[table]'") from error
        names = [self.names[label] for label in self.labels]
        columns = (self.ids, self.labels, names, self.confidence, self.margin, self.outlier)
        frame = pd.DataFrame(dict(zip(COLUMNS, columns, strict=True)))
        return frame if self.groups is None else frame.assign(**{io.DUPLICATE_OF: self.duplicate_of()})

    # --- editing -----------------------------------------------------------------------------------------------------

    def edited(self, draft: Draft) -> Clustering:
        """This clustering with the changes of ``draft``."""
        return self._with(**draft.fields())

    def _edit(self, verb: str, *arguments: Any) -> Clustering:
        draft = Draft.of(self)
        getattr(draft, verb)(*arguments)
        return self.edited(draft)

    def rename(self, cluster: int | str, name: str) -> Clustering:
        """Rename a cluster, given by its number or current name."""
        return self._edit("rename", cluster, name)

    def with_names(self, names: Sequence[str]) -> Clustering:
        """Replace all k names."""
        return self._with(names=names)

    def merge(self, clusters: Sequence[int | str], name: str | None = None) -> Clustering:
        """Merge clusters into the first of them; the others stay as empty clusters.

        The first cluster keeps its number, and its name unless ``name`` is given. Probabilities are added up, and
        confidence and margin follow from them; without probabilities they are unchanged.

        >>> c = Clustering(["a", "b", "c"], [0, 1, 2]).merge([0, 2], "cats")
        >>> c.labels, c.names, c.merged
        (array([0, 1, 0]), ['cats', 'Cluster 1', 'Cluster 2'], {2: 0})
        """
        return self._edit("merge", clusters, name)

    def split(
        self, cluster: int | str, parts: Sequence[ArrayLike], names: Sequence[str | None] | None = None
    ) -> Clustering:
        """Make each of ``parts``, the rows of some images of a cluster, a cluster of its own; the rest stays.

        ``cgmcr2.clustering.propose_split`` finds parts by clustering the images of the cluster.

        >>> c = Clustering(["a", "b", "c"], [0, 0, 0], names=["pets"]).split(0, [[1], [2]], ["cats", None])
        >>> c.labels, c.names
        (array([0, 1, 2]), ['pets', 'cats', 'pets (2)'])
        """
        return self._edit("split", cluster, parts, names)

    def move(self, rows: ArrayLike, cluster: int | str) -> Clustering:
        """Move the images ``rows`` to a cluster; their confidence and margin become 1.

        >>> Clustering(["a", "b"], [0, 1]).move([0], 1).labels
        array([1, 1])
        """
        return self._edit("move", rows, cluster)

    def new(self, rows: ArrayLike, name: str | None = None) -> Clustering:
        """Move the images ``rows`` to a new cluster.

        >>> c = Clustering(["a", "b"], [0, 0]).new([1], "dogs")
        >>> c.labels, c.names
        (array([0, 1]), ['Cluster 0', 'dogs'])
        """
        return self._edit("new", rows, name)

    def exclude(self, rows: ArrayLike) -> Clustering:
        """Move the images ``rows`` to the cluster ``excluded``, which is kept out of exports.

        >>> c = Clustering(["a", "b"], [0, 0]).exclude([1])
        >>> c.excluded, c.names[c.excluded], c.included().ids
        (1, 'Excluded', ['a'])
        """
        return self._edit("exclude", rows)

    def lock(self, rows: ArrayLike) -> Clustering:
        """Confirm the cluster of the images ``rows``: they cannot be moved until they are unlocked."""
        return self._edit("lock", rows)

    def unlock(self, rows: ArrayLike) -> Clustering:
        """Allow the images ``rows`` to be moved again."""
        return self._edit("unlock", rows)

    def included(self) -> Clustering:
        """The clustering without the excluded images."""
        return self if self.excluded is None else self.subset(np.flatnonzero(self.labels != self.excluded))

    def subset(self, rows: ArrayLike) -> Clustering:
        """The clustering of the images ``rows``, in this order; without groups of near-duplicates."""
        index = row_numbers(rows)
        arrays = ("labels", "confidence", "margin", "outlier", "locked", "embedding", "probabilities")
        values = {name: getattr(self, name) for name in arrays}
        changes = {name: None if value is None else value[index] for name, value in values.items()}
        return self._with(ids=[self.ids[row] for row in index], groups=None, **changes)

    def with_clusters(self, m: int) -> Clustering:
        """Merge the clusters of most similar subspaces until m are left; the largest one gives its number and name.

        Excluded images are neither merged nor counted.

        >>> c = Clustering(["a", "b", "c"], [0, 1, 2], embedding=[[1, 0], [0.9, 0.4], [0, 1]])
        >>> c.with_clusters(2).labels
        array([0, 0, 2])
        """
        sizes, merged = self.sizes(), self
        for group in self.included().hierarchy().groups(m):
            if len(group) > 1:
                group.sort(key=lambda c: -sizes[c])
                merged = merged.merge(group)
        return merged

    # --- saving ------------------------------------------------------------------------------------------------------

    def records(self) -> Iterator[tuple[object, ...]]:
        """The rows of ``labels.csv``."""
        return io.records(self)

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write ``labels.csv``, ``clusters.csv`` (one row per non-empty cluster), ``clusters.json`` (names, merges),
        and, if it has them, ``embeddings.npy`` and ``probabilities.npy``, each atomically.

        File names are written byte for byte, so ``labels.csv`` is UTF-8 unless a file name is not. The labels of a
        finished run are not overwritten; edit them with ``cgmcr2.Edits``.

        >>> import tempfile
        >>> c = Clustering(["a", "b"], [0, 1], embedding=[[1, 0], [0, 1]])
        >>> folder = tempfile.mkdtemp()
        >>> c.save(folder)
        >>> Clustering.load(folder) == c
        True
        """
        if (Path(folder) / CHECKSUMS).exists():
            raise ValueError(
                f"{folder} is a finished run, and its fitted labels are kept; "
                f"edit it with cgmcr2.Edits({str(folder)!r}), or save to another folder."
            )
        io.save_clustering(self, Path(folder))

    @classmethod
    def load(cls, folder: str | os.PathLike[str], *, edits: bool = True) -> Clustering:
        """Load what ``save`` wrote, after the edits in the folder; arrays are memory-mapped.

        Only ``labels.csv`` is required. Without ``edits``, the clusters are as fitted.
        """
        from .edits import load_edited

        fitted = cls(**io.read_clustering(Path(folder)))
        return load_edited(Path(folder), fitted) if edits else fitted


_FIELDS = (
    "ids",
    "labels",
    "confidence",
    "margin",
    "outlier",
    "embedding",
    "probabilities",
    "names",
    "merged",
    "groups",
    "locked",
    "excluded",
)


def _frozen(values: ArrayLike, dtype: type, n: int, axes: int, name: str) -> NDArray[Any]:
    """A read-only view of ``values`` (no copy if not needed), checked to have n rows and ``axes`` axes."""
    view: NDArray[Any] = np.asarray(values, dtype=dtype).view(np.ndarray)
    if view.ndim != axes or len(view) != n:
        needed = (n,) if axes == 1 else f"({n}, any)"
        raise ValueError(f"{name} has shape {view.shape}, but {n} ids need shape {needed}.")
    view.flags.writeable = False
    return view


def _are_first_rows(groups: NDArray[np.int64]) -> bool:
    """Whether each entry is the first row of a group.

    >>> _are_first_rows(np.array([0, 0, 2])), _are_first_rows(np.array([0, 2, 2]))
    (True, False)
    """
    rows = np.arange(len(groups))
    return bool((groups >= 0).all() and (groups <= rows).all() and (groups[groups] == groups).all())


def _confidence_and_margin(
    labels: NDArray[np.int64], probabilities: NDArray[np.float32] | None
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """The probability of each row's cluster, and its difference to the largest other probability."""
    if probabilities is None:
        return np.ones(len(labels), np.float32), np.ones(len(labels), np.float32)
    confidence, margin = np.empty((2, len(labels)), np.float32)
    for start in range(0, len(labels), BLOCK_ROWS):
        rows = slice(start, start + BLOCK_ROWS)
        confidence[rows], margin[rows] = confidence_and_margin(labels[rows], probabilities[rows])
    return confidence, margin
