"""What a run yields: for every image its cluster, how sure that is, and where it lies in the embedding."""

from __future__ import annotations

import csv
import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cgmcr2._files import replacing, write_text
from cgmcr2.clustering.geometry import ClusterFacts, cluster_facts

if TYPE_CHECKING:
    import pandas as pd

    from cgmcr2.clustering.hierarchy import Hierarchy

COLUMNS = ("path", "cluster", "name", "confidence", "margin", "outlier")


class Clustering:
    """The clusters of n images. A value: ``rename`` and ``merge`` return a new one and leave this one as it was.

    Clusters keep their numbers. Merging 5 into 3 leaves cluster 5 empty and 7 stays 7, so that a number read on a
    report, written in a note or predicted by the model keeps its meaning; ``merged`` remembers ``{5: 3}``.

    Parameters
    ----------
    ids : n distinct strings, such as the images' paths within their source
    labels : (n,) the cluster of each image, in 0 ... k-1; a cluster may be empty
    confidence : (n,) probability of that cluster; taken from ``probabilities`` when not given, else 1
    margin : (n,) its lead over the next best cluster; likewise
    outlier : (n,) how unusual the image is, 0 to 1; see ``cgmcr2.clustering.geometry.outlier_scores``; 0 when not given
    embedding : (n, d) rows of unit length
    probabilities : (n, k) rows that sum to 1
    names : k distinct names; "Cluster 0", "Cluster 1", ... when not given
    merged : for each cluster that was merged away, the cluster that took its images

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
    ) -> None:
        self.ids = list(ids)
        n = len(self.ids)
        self.labels: NDArray[np.int64] = _frozen(labels, np.int64, n, 1, "labels")
        self.embedding = None if embedding is None else _frozen(embedding, np.float32, n, 2, "embedding")
        self.probabilities = (
            None if probabilities is None else _frozen(probabilities, np.float32, n, 2, "probabilities")
        )
        k = self.labels.max(initial=-1) + 1 if self.probabilities is None else self.probabilities.shape[1]
        self.names = list(names) if names is not None else [_default_name(c) for c in range(k)]
        self.merged = dict(merged or {})
        self._check()
        if confidence is None or margin is None:
            sure, lead = _certainty(self.labels, self.probabilities)
            confidence, margin = sure if confidence is None else confidence, lead if margin is None else margin
        self.confidence: NDArray[np.float32] = _frozen(confidence, np.float32, n, 1, "confidence")
        self.margin: NDArray[np.float32] = _frozen(margin, np.float32, n, 1, "margin")
        unusual = np.zeros(n, np.float32) if outlier is None else outlier
        self.outlier: NDArray[np.float32] = _frozen(unusual, np.float32, n, 1, "outlier")

    def _check(self) -> None:
        k = len(self.names)
        if len(set(self.ids)) != len(self.ids):
            raise ValueError("The same id was given for two images: every image needs an id of its own.")
        if len(self.labels) and not (self.labels.min() >= 0 and self.labels.max() < k):
            low, high = self.labels.min(), self.labels.max()
            raise ValueError(f"Labels go from {low} to {high}, but with {k} names they must be in 0 ... {k - 1}.")
        if self.probabilities is not None and self.probabilities.shape[1] != k:
            raise ValueError(f"{self.probabilities.shape[1]} columns of probabilities do not fit {k} names.")
        for name in self.names:
            if not name.strip():
                raise ValueError("A cluster's name is empty: give it at least one visible character.")
        name, count = Counter(self.names).most_common(1)[0] if k else ("", 1)
        if count > 1:
            raise ValueError(f"Two clusters are called {name!r}: choose another name, or merge them.")

    @property
    def n_clusters(self) -> int:
        """k, the number of clusters, empty ones included."""
        return len(self.names)

    @property
    def clusters(self) -> list[int]:
        """The numbers of the clusters that have images.

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
        pairs = ((mine, vars(other)[key]) for key, mine in vars(self).items())
        return all(
            type(a) is type(b) and (np.array_equal(a, b) if isinstance(a, np.ndarray) else a == b) for a, b in pairs
        )

    __hash__ = None  # type: ignore[assignment]  # it holds arrays

    def _with(self, **changes: Any) -> Clustering:
        return Clustering(**{**vars(self), **changes})

    # --- looking -----------------------------------------------------------------------------------------------------

    def sizes(self) -> NDArray[np.int64]:
        """Number of images in each cluster, (k,).

        >>> Clustering(["a", "b"], [1, 1]).sizes()
        array([0, 2])
        """
        return np.bincount(self.labels, minlength=self.n_clusters)

    def typicality(self, cluster: int) -> NDArray[np.float32]:
        """How typical each of the cluster's images is, in the order of ``rows(cluster)``: larger is more typical.

        A cluster is a subspace of the embedding, so an image is typical when it lies along the directions that most
        of the cluster shares: its mean squared cosine with the cluster, z' C z with C = mean(z z'), times its
        confidence. Without an embedding the confidence alone decides.
        """
        rows = self.rows(cluster)
        if self.embedding is None or len(rows) == 0:
            return self.confidence[rows]
        Z = np.asarray(self.embedding[rows], dtype=np.float32)  # (m, d)
        second_moment = Z.T @ Z / np.float32(len(rows))  # (d, d)
        energy: NDArray[np.float32] = np.einsum("md,md->m", Z @ second_moment, Z)
        return energy * self.confidence[rows]

    def rows(self, cluster: int) -> NDArray[np.int64]:
        """Row numbers of the cluster's images, in order.

        >>> Clustering(["a", "b", "c"], [1, 0, 1]).rows(1)
        array([0, 2])
        """
        return np.flatnonzero(self.labels == self._checked(cluster))

    def representatives(self, cluster: int, n: int = 10) -> NDArray[np.int64]:
        """Row numbers of the n most typical images of a cluster (all, if it has fewer), the most typical first.

        >>> c = Clustering(["a", "b", "c"], [0, 0, 0], embedding=[[1, 0], [0.8, 0.6], [0.6, 0.8]])
        >>> [c.ids[row] for row in c.representatives(0, n=1)]
        ['b']
        """
        return self.rows(cluster)[np.argsort(-self.typicality(cluster), kind="stable")[:n]]

    def uncertain(self, cluster: int | None = None, n: int = 10) -> NDArray[np.int64]:
        """Row numbers of the n least certain images (smallest margin first), of one cluster or of all.

        >>> Clustering(["a", "b"], [0, 1], confidence=[0.5, 0.6], margin=[0.3, 0.2]).uncertain(n=1)
        array([1])
        """
        rows = np.arange(len(self)) if cluster is None else self.rows(cluster)
        return rows[np.argsort(self.margin[rows], kind="stable")[:n]]

    def hierarchy(self) -> Hierarchy:
        """The tree of the clusters, by the angles between their subspaces; see ``with_clusters``.

        >>> c = Clustering(["a", "b", "c"], [0, 1, 2], embedding=[[1, 0], [0, 1], [0.9, 0.4]])
        >>> c.hierarchy().groups(2)
        [[1], [0, 2]]
        """
        from cgmcr2.clustering.hierarchy import build_hierarchy

        if self.embedding is None:
            raise ValueError("These clusters have no embedding, so there are no subspaces to compare; give one.")
        return build_hierarchy(self.embedding, self.labels, self.n_clusters)

    def to_frame(self) -> pd.DataFrame:
        """One table with everything, a row an image, with the columns of ``labels.csv`` (needs pandas)."""
        try:
            import pandas as pd
        except ImportError as error:
            raise ImportError("A data frame needs pandas: pip install 'cgmcr2[table]'.") from error
        names = [self.names[label] for label in self.labels]
        columns = (self.ids, self.labels, names, self.confidence, self.margin, self.outlier)
        return pd.DataFrame(dict(zip(COLUMNS, columns, strict=True)))

    # --- mending -----------------------------------------------------------------------------------------------------

    def rename(self, cluster: int | str, name: str) -> Clustering:
        """The same clusters, one of them, given by its number or present name, called ``name``."""
        names = list(self.names)
        names[self._checked(cluster)] = name.strip()
        return self._with(names=names)

    def with_names(self, names: Sequence[str]) -> Clustering:
        """The same clusters, all of them named anew: one name for each of the k."""
        return self._with(names=names)

    def merge(self, clusters: Sequence[int | str], name: str | None = None) -> Clustering:
        """The first of the given clusters takes over the images of the others, which stay as empty clusters.

        It keeps its number, and its name if none is given. With probabilities, those of the merged clusters are added
        and confidence and margin follow; without, they stay as they were, a lower bound.

        >>> c = Clustering(["a", "b", "c"], [0, 1, 2]).merge([0, 2], "cats")
        >>> c.labels, c.names, c.merged
        (array([0, 1, 0]), ['cats', 'Cluster 1', 'Cluster 2'], {2: 0})
        """
        numbers = list(dict.fromkeys(self._checked(c) for c in clusters))
        if len(numbers) < 2:
            raise ValueError(f"Merging needs at least two different clusters, not {list(clusters)}.")
        target, gone = numbers[0], numbers[1:]
        names = list(self.names)
        for c in gone:
            names[c] = _default_name(c)
        names[target] = names[target] if name is None else name.strip()
        changes: dict[str, Any] = {
            "labels": np.where(np.isin(self.labels, gone), target, self.labels),
            "names": names,
            "merged": {c: target if to in gone else to for c, to in self.merged.items()} | dict.fromkeys(gone, target),
        }
        if self.probabilities is not None:
            probabilities = np.array(self.probabilities)
            probabilities[:, target] = probabilities[:, numbers].sum(axis=1)
            probabilities[:, gone] = 0
            changes |= {"probabilities": probabilities, "confidence": None, "margin": None}
        return self._with(**changes)

    def with_clusters(self, m: int) -> Clustering:
        """Fewer clusters: those whose subspaces are nearest are merged until m are left; the largest keeps its name.

        >>> c = Clustering(["a", "b", "c"], [0, 1, 2], embedding=[[1, 0], [0.9, 0.4], [0, 1]])
        >>> c.with_clusters(2).labels
        array([0, 0, 2])
        """
        sizes, joined = self.sizes(), self
        for group in self.hierarchy().groups(m):
            if len(group) > 1:
                group.sort(key=lambda c: -sizes[c])
                joined = joined.merge(group)
        return joined

    def _checked(self, cluster: int | str) -> int:
        if isinstance(cluster, str):
            if cluster not in self.names:
                raise ValueError(f"There is no cluster called {cluster!r}; there are {', '.join(self.names[:20])}.")
            return self.names.index(cluster)
        if not 0 <= cluster < self.n_clusters:
            raise ValueError(f"There is no cluster {cluster}: clusters are 0 ... {self.n_clusters - 1}.")
        return int(cluster)

    # --- keeping -----------------------------------------------------------------------------------------------------

    def records(self) -> Iterator[tuple[str, int, str, float, float, float]]:
        """The rows of ``labels.csv``: path, cluster, name, confidence, margin, outlier."""
        columns = (self.labels.tolist(), *map(_shortest, (self.confidence, self.margin, self.outlier)))
        for path, label, confidence, margin, outlier in zip(self.ids, *columns, strict=True):
            yield path, label, self.names[label], confidence, margin, outlier

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write ``labels.csv``, ``clusters.csv`` (a row a cluster), ``clusters.json`` (names, merges),
        ``embeddings.npy`` and ``probabilities.npy``.

        Each file appears whole or not at all. Names of images are written byte for byte as the file system has them,
        so ``labels.csv`` is UTF-8 unless a file's name is not.

        >>> import tempfile
        >>> c = Clustering(["a", "b"], [0, 1], embedding=[[1, 0], [0, 1]])
        >>> folder = tempfile.mkdtemp()
        >>> c.save(folder)
        >>> Clustering.load(folder) == c
        True
        """
        folder = Path(folder)
        for file, array in (("embeddings.npy", self.embedding), ("probabilities.npy", self.probabilities)):
            if array is None:
                (folder / file).unlink(missing_ok=True)
            else:
                with replacing(folder / file) as temporary:
                    np.save(temporary, array)
        state = {"names": self.names, "merged": {str(c): to for c, to in self.merged.items()}}
        write_text(folder / "clusters.json", json.dumps(state, indent=2) + "\n")
        with replacing(folder / "clusters.csv") as temporary:
            write_csv(temporary, cluster_facts(self), ClusterFacts._fields)
        with replacing(folder / "labels.csv") as temporary:
            write_csv(temporary, self.records())

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> Clustering:
        """Read what ``save`` wrote; the arrays stay on disk, memory-mapped. Only ``labels.csv`` must be there."""
        folder = Path(folder)
        table = folder / "labels.csv"
        if not table.is_file():
            raise FileNotFoundError(f"There is no labels.csv in {folder}: is it a finished run?")
        with table.open(encoding="utf-8", errors="surrogateescape", newline="") as file:
            rows = list(csv.reader(file))
        header = rows[0] if rows else []
        if tuple(header) not in (COLUMNS, COLUMNS[:-1]) or any(len(row) != len(header) for row in rows):
            raise ValueError(f"{table} must have the columns {', '.join(COLUMNS)} in every row.")
        columns = list(zip(*rows[1:], strict=True)) if rows[1:] else [()] * len(header)
        ids, labels, row_names, confidence, margin = columns[:5]  # the first release had no outlier
        arrays = {
            key: np.load(folder / file, mmap_mode="r") if (folder / file).is_file() else None
            for key, file in (("embedding", "embeddings.npy"), ("probabilities", "probabilities.npy"))
        }
        numbers = np.array(labels, dtype=np.int64)
        state: dict[str, Any] = {}
        if (folder / "clusters.json").is_file():
            state = json.loads((folder / "clusters.json").read_text(encoding="utf-8"))
        named = dict(zip(numbers.tolist(), row_names, strict=True))
        names = state.get("names") or [named.get(c, _default_name(c)) for c in range(numbers.max(initial=-1) + 1)]
        return cls(
            ids,
            numbers,
            confidence=np.array(confidence, dtype=np.float32),
            margin=np.array(margin, dtype=np.float32),
            outlier=np.array(columns[5], dtype=np.float32) if len(columns) > 5 else None,
            names=names,
            merged={int(c): to for c, to in state.get("merged", {}).items()},
            **arrays,
        )


def write_csv(path: str | os.PathLike[str], rows: Iterable[Sequence[object]], header: Sequence[str] = COLUMNS) -> None:
    """Write rows as RFC 4180 has it; text that came from undecodable file names is written as the bytes it was."""
    with open(path, "w", encoding="utf-8", errors="surrogateescape", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        writer.writerows(rows)


def _default_name(cluster: int) -> str:
    return f"Cluster {cluster}"


def _frozen(values: ArrayLike, dtype: type, n: int, axes: int, what: str) -> NDArray[Any]:
    """A read-only view of the values (not a copy where none is needed), if they are n rows with so many axes."""
    view: NDArray[Any] = np.asarray(values, dtype=dtype).view(np.ndarray)
    if view.ndim != axes or len(view) != n:
        raise ValueError(f"{what} has the shape {view.shape}, but {n} ids need {(n,) if axes == 1 else f'({n}, any)'}.")
    view.flags.writeable = False
    return view


def _certainty(
    labels: NDArray[np.int64], probabilities: NDArray[np.float32] | None
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Confidence and margin: the probability of each row's own cluster, and its lead over the best other one."""
    if probabilities is None:
        return np.ones(len(labels), np.float32), np.ones(len(labels), np.float32)
    confidence, margin = np.empty((2, len(labels)), np.float32)
    for start in range(0, len(labels), 65_536):  # a block at a time: the whole may be larger than memory
        own = labels[start : start + 65_536, None]
        block = np.array(probabilities[start : start + 65_536])
        sure = np.take_along_axis(block, own, axis=1)[:, 0]
        np.put_along_axis(block, own, 0, axis=1)
        confidence[start : start + 65_536] = sure
        margin[start : start + 65_536] = sure - block.max(axis=1, initial=0)
    return confidence, margin


def _shortest(values: NDArray[np.float32]) -> list[float]:
    """Floats that print as briefly as float32 allows (0.9, not 0.8999999761581421) and read back as they were."""
    return [float(text) for text in values.astype(str)]
