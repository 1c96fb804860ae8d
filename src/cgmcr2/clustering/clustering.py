"""The clusters of a set of images, as an immutable value."""

from __future__ import annotations

import copy
import os
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cgmcr2._checksums import FILE_NAME as CHECKSUMS

from . import io
from .draft import Draft, cluster_number, row_numbers
from .fields import ClusteringFields, read_only
from .geometry import cluster_energy, split_by_cluster
from .hierarchy import Hierarchy, build_hierarchy
from .io import COLUMNS
from .memberships import best_other
from .verbs import Verbs

if TYPE_CHECKING:
    import pandas as pd

    from cgmcr2.features.sources import FeatureSource
    from cgmcr2.model.levels import Levels
    from cgmcr2.words import Suggestion, TextEmbeddings


class Clustering(ClusteringFields, Verbs):
    """The clusters of n images. Immutable: ``rename``, ``merge``, ``move`` and the like return a new ``Clustering``.

    Clusters keep their numbers. Merging 5 into 3 leaves cluster 5 empty and does not renumber 7, so a number in a
    report, in a note or from the model keeps its meaning; ``merged`` is then ``{5: 3}``.

    Parameters
    ----------
    ids : n distinct strings, such as the paths of the images within their source
    labels : (n,) cluster of each image, in 0 ... k-1; a cluster may be empty
    confidence : (n,) probability of that cluster; default: from ``probabilities``, or 1
    margin : (n,) confidence minus the largest probability of another cluster; default: from ``probabilities``, or 1
    outlier : (n,) how unusual the image is, 0 to 1; default: 0
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

    def __repr__(self) -> str:
        return f"Clustering({len(self):,} images, {len(self.clusters)} clusters)"

    # --- inspecting --------------------------------------------------------------------------------------------------

    @cached_property
    def energy(self) -> NDArray[np.float64] | None:
        """(n,) mean squared cosine of each image with its cluster, computed once; None without an embedding."""
        if self.embedding is None:
            return None
        if self._earlier is None:
            return cluster_energy(self.embedding, self.labels)
        labels, earlier = self._earlier
        changed = labels != self.labels
        rows = np.flatnonzero(np.isin(self.labels, np.union1d(labels[changed], self.labels[changed])))
        energy = earlier.copy()
        energy[rows] = cluster_energy(self.embedding[rows], self.labels[rows])
        return energy

    @cached_property
    def runner_up(self) -> NDArray[np.int64]:
        """(n,) the most probable other cluster of each image; -1 if all others have probability 0.

        >>> Clustering(["a", "b"], [0, 1], probabilities=[[0.5, 0.2, 0.3], [0, 1, 0]]).runner_up
        array([ 2, -1])
        """
        runner_up = np.full(len(self), -1)
        if self.memberships is not None:
            for rows, probabilities in self.memberships.blocks():
                runner_up[rows] = best_other(self.labels[rows], probabilities)
        return read_only(runner_up)

    @cached_property
    def probabilities(self) -> NDArray[np.float32] | None:
        """(n, k) memberships. After edits this is a copy; ``memberships[rows]`` computes only the rows it is given."""
        return None if self.memberships is None else read_only(self.memberships.dense())

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

    def suggest_names(self, features: FeatureSource, text: TextEmbeddings) -> list[Suggestion]:
        """Suggest a name for each cluster from words in the space of the ``features (n, D)`` of the images.

        See :func:`cgmcr2.words.suggest_names`. Excluded images are ignored.

        >>> from cgmcr2.words import TextEmbeddings, Vocabulary
        >>> text = TextEmbeddings(Vocabulary.from_lines(["cat", "dog"]), np.eye(2, dtype=np.float32))
        >>> [suggestion.name for suggestion in Clustering(["a", "b"], [1, 0]).suggest_names(np.eye(2), text)]
        ['dog', 'cat']
        """
        from cgmcr2.words import suggest_names

        excluded = -1 if self.excluded is None else self.excluded
        return suggest_names(features, np.where(self.labels == excluded, -1, self.labels), text)

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

    def _edit(self, verb: str, *arguments: Any) -> Clustering:
        draft = Draft.of(self)
        getattr(draft, verb)(*arguments)
        return self.edited(draft)

    def edited(self, draft: Draft) -> Clustering:
        """This clustering with the changes of ``draft``, without checking again what edits cannot change."""
        result = copy.copy(self)
        values = vars(result)
        for name, value in vars(draft).items():
            if isinstance(value, np.ndarray):
                value.flags.writeable = False
            values[name] = value
        if draft.runner_up is None:  # not computed before, so not updated by the edits
            del values["runner_up"]
        if draft.labels is not self.labels:
            energy = values.pop("energy", None)
            if energy is not None:
                result._earlier = self.labels, energy
            values.pop("_members", None)
        if draft.memberships is not self.memberships:
            values.pop("probabilities", None)
        return result

    def with_names(self, names: Sequence[str]) -> Clustering:
        """Replace all k names."""
        return self._with(names=names)

    def included(self) -> Clustering:
        """The clustering without the excluded images."""
        return self if self.excluded is None else self.subset(np.flatnonzero(self.labels != self.excluded))

    def subset(self, rows: ArrayLike) -> Clustering:
        """The clustering of the images ``rows``, in this order; without groups of near-duplicates."""
        index = row_numbers(rows)
        arrays = ("labels", "confidence", "margin", "outlier", "locked", "embedding", "memberships")
        values = {name: getattr(self, name) for name in arrays}
        changes = {name: None if value is None else value[index] for name, value in values.items()}
        changes["probabilities"] = changes.pop("memberships")
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

    def at_level(self, levels: Levels, m: int) -> Clustering:
        """The clusters at the level of m clusters; ``levels`` is the tree through the clusters of this clustering.

        Clusters keep their numbers and names: a merged one has those of its largest part, a part of a divided one is
        new. ``Clustering.load(folder, level=m)`` does both steps for a run folder.
        """
        levels.check(m)
        draft, split = Draft.of(self), max(0, m - levels.proposed)
        boundary = levels.finest - levels.proposed  # merges before it are within clusters
        for kept, gone in levels.merges[boundary : levels.finest - m]:
            draft.merge([kept, gone])
        if split:
            if self.embedding is None:
                raise ValueError("More clusters need the embedding of the images, but this clustering has none.")
            parents = dict(zip(levels.leaves, levels.parents, strict=True))
            new = [gone for _, gone in reversed(levels.merges[boundary - split : boundary])]
            draft.divide([parents[number] for number in new], levels.labels(self.embedding, self.labels, m))
        return self.edited(draft)

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
    def load(cls, folder: str | os.PathLike[str], *, edits: bool = True, level: int | None = None) -> Clustering:
        """Load what ``save`` wrote, after the edits in the folder; arrays are memory-mapped.

        Only ``labels.csv`` is required. Without ``edits``, the clusters are as fitted. With a ``level``, there are so
        many clusters; the folder must be a run with ``-k auto``.
        """
        from .edits import check_unmoved, load_edited

        fitted = cls(**io.read_clustering(Path(folder)))
        clustering = load_edited(Path(folder), fitted) if edits else fitted
        if level is None:
            return clustering
        from cgmcr2.model.levels import read_levels  # imports torch

        check_unmoved(fitted, clustering)
        return clustering.at_level(read_levels(Path(folder) / "model"), level)
