"""The verbs that edit a clustering, on a mutable copy of what they change."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .io import default_name

if TYPE_CHECKING:
    from .clustering import Clustering

Int64 = NDArray[np.int64]

EXCLUDED = "Excluded"  # name of the cluster of excluded images


@dataclasses.dataclass
class Draft:
    """A mutable copy of the parts of a ``Clustering`` that edits change. Each verb is described there."""

    labels: Int64
    confidence: NDArray[np.float32]
    margin: NDArray[np.float32]
    probabilities: NDArray[np.float32] | None
    names: list[str]
    merged: dict[int, int]
    locked: NDArray[np.bool_]
    excluded: int | None
    changes_probabilities: bool = False

    @classmethod
    def of(cls, clustering: Clustering) -> Draft:
        """A copy of ``clustering``."""
        return cls(
            labels=np.array(clustering.labels),
            confidence=np.array(clustering.confidence),
            margin=np.array(clustering.margin),
            probabilities=None if clustering.probabilities is None else np.array(clustering.probabilities),
            names=list(clustering.names),
            merged=dict(clustering.merged),
            locked=np.array(clustering.locked),
            excluded=clustering.excluded,
        )

    def fields(self) -> dict[str, Any]:
        """The keyword arguments of ``Clustering`` that edits may have changed."""
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        if fields.pop("changes_probabilities") and self.probabilities is not None:
            fields |= {"confidence": None, "margin": None}  # follow from the probabilities
        return fields

    def rename(self, cluster: int | str, name: str) -> None:
        self.names[self.number(cluster)] = self._free(name, self.number(cluster))

    def merge(self, clusters: Sequence[int | str], name: str | None = None) -> None:
        numbers = list(dict.fromkeys(map(self.number, clusters)))
        if len(numbers) < 2:
            raise ValueError(f"Merging needs at least two different clusters, but got {list(clusters)}.")
        target, gone = numbers[0], numbers[1:]
        for cluster in gone:
            self.names[cluster] = ""
            self.names[cluster] = self._unused(default_name(cluster))
        if name is not None:
            self.names[target] = self._free(name, target)
        self.labels[np.isin(self.labels, gone)] = target
        self.merged = {c: target if to in gone else to for c, to in self.merged.items()} | dict.fromkeys(gone, target)
        self.merged.pop(target, None)  # images were moved back to it after it had been merged
        if self.excluded in gone:
            self.excluded = None
        if self.probabilities is not None:
            self.probabilities[:, target] = self.probabilities[:, numbers].sum(axis=1)
            self.probabilities[:, gone] = 0
            self.changes_probabilities = True

    def move(self, rows: ArrayLike, cluster: int | str) -> None:
        rows, target = self._movable(rows), self.number(cluster)
        self.labels[rows] = target
        self.confidence[rows] = self.margin[rows] = 1
        if self.probabilities is not None:
            self.probabilities[rows] = 0
            self.probabilities[rows, target] = 1
            self.changes_probabilities = True

    def new(self, rows: ArrayLike, name: str | None = None) -> None:
        rows = self._movable(rows)
        self.move(rows, self._add(name))

    def exclude(self, rows: ArrayLike) -> None:
        rows = self._movable(rows)
        if self.excluded is None:
            self.excluded = self._add(self._unused(EXCLUDED))
        self.move(rows, self.excluded)

    def split(self, cluster: int | str, parts: Sequence[ArrayLike], names: Sequence[str | None] | None = None) -> None:
        origin = self.number(cluster)
        moved = [self._movable(rows) for rows in parts]
        if names is not None and len(names) != len(moved):
            raise ValueError(f"There are {len(names)} names for {len(moved)} parts; give one for each part.")
        together = np.concatenate(moved) if moved else np.empty(0, np.int64)
        size = int((self.labels == origin).sum())
        if not moved or len(np.unique(together)) < len(together) or (self.labels[together] != origin).any():
            raise ValueError(
                f"The parts must be disjoint sets of the images of {self.names[origin]!r}; preview them first."
            )
        if len(together) >= size:
            raise ValueError(f"The parts hold all {size} images of {self.names[origin]!r}; leave some in the cluster.")
        for rows, name in zip(moved, names or [None] * len(moved), strict=True):
            target = self._add(name or self._unused(self.names[origin]))
            self.labels[rows] = target
            if self.probabilities is not None:
                self.probabilities[rows, target] = self.probabilities[rows, origin]
                self.probabilities[rows, origin] = 0
                self.changes_probabilities = True

    def lock(self, rows: ArrayLike) -> None:
        self.locked[self._rows(rows)] = True

    def unlock(self, rows: ArrayLike) -> None:
        self.locked[self._rows(rows)] = False

    def number(self, cluster: int | str) -> int:
        """The number of a cluster, given by number or name."""
        return cluster_number(cluster, self.names)

    def _add(self, name: str | None) -> int:
        """Append an empty cluster and return its number."""
        number = len(self.names)
        self.names.append(self._unused(default_name(number)) if name is None else self._free(name))
        if self.probabilities is not None:
            self.probabilities = np.pad(self.probabilities, ((0, 0), (0, 1)))
        return number

    def _free(self, name: str, cluster: int | None = None) -> str:
        """``name`` without surrounding space, if it is a valid name that no cluster other than ``cluster`` has."""
        name = name.strip()
        if not name:
            raise ValueError("The name of a cluster is empty; give it at least one visible character.")
        if any("\ud800" <= character <= "\udfff" for character in name):
            raise ValueError(f"The name {name!r} is not valid Unicode; choose another name.")
        if name in self.names and self.names.index(name) != cluster:
            raise ValueError(f"Two clusters are called {name!r}; choose another name, or merge them.")
        return name

    def _unused(self, name: str) -> str:
        """``name``, followed by (2), (3), ... if other clusters have it."""
        candidates = itertools.chain([name], (f"{name} ({number})" for number in itertools.count(2)))
        return next(candidate for candidate in candidates if candidate not in self.names)

    def _rows(self, rows: ArrayLike) -> Int64:
        checked, n = np.unique(row_numbers(rows)), len(self.labels)
        if not len(checked) or checked[0] < 0 or checked[-1] >= n:
            raise ValueError(f"Give the rows of at least one image, in 0 ... {n - 1}.")
        return checked

    def _movable(self, rows: ArrayLike) -> Int64:
        checked = self._rows(rows)
        locked = int(self.locked[checked].sum())
        if locked:
            raise ValueError(f"{locked:,} of the {len(checked):,} images are locked; unlock them before moving them.")
        return checked


def row_numbers(rows: ArrayLike) -> Int64:
    """``rows`` as an integer array; raise ``ValueError`` for a mask, which would be taken for rows 0 and 1."""
    values = np.asarray(rows)
    if values.size and values.dtype.kind not in "iu":
        raise ValueError(f"Rows must be integers, but got {values.dtype}; use np.flatnonzero for a mask.")
    return values.astype(np.int64)


def cluster_number(cluster: int | str, names: Sequence[str]) -> int:
    """The number of a cluster, given by number or name."""
    if isinstance(cluster, str):
        if cluster not in names:
            raise ValueError(f"There is no cluster called {cluster!r}; choose from {', '.join(names[:20])}.")
        return names.index(cluster)
    if not 0 <= cluster < len(names):
        raise ValueError(f"There is no cluster {cluster}; clusters are 0 ... {len(names) - 1}.")
    return int(cluster)
