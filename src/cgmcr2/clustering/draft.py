"""The verbs that edit a clustering, on a draft that copies only what they change."""

from __future__ import annotations

import dataclasses
import inspect
import itertools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cgmcr2._arrays import confidence_and_margin

from .io import default_name
from .memberships import Change, Exchange, Memberships, Merge, Reject, best_other

if TYPE_CHECKING:
    from .clustering import Clustering

Int64 = NDArray[np.int64]

VERBS = ("rename", "merge", "split", "move", "new", "exclude", "reject", "refine", "lock", "unlock", "batch")
EXCLUDED = "Excluded"  # name of the cluster of excluded images


@dataclasses.dataclass
class Draft:
    """The parts of a ``Clustering`` that edits change. Arrays are shared until an edit writes to them.

    Each verb is described at the method of ``Clustering`` of the same name.
    """

    labels: Int64
    confidence: NDArray[np.float32]
    margin: NDArray[np.float32]
    memberships: Memberships | None
    names: list[str]
    merged: dict[int, int]
    locked: NDArray[np.bool_]
    excluded: int | None
    runner_up: Int64 | None  # None if it was not computed yet

    @classmethod
    def of(cls, clustering: Clustering) -> Draft:
        """A draft that equals ``clustering``."""
        fields: dict[str, Any] = {field.name: vars(clustering).get(field.name) for field in dataclasses.fields(cls)}
        return cls(**{**fields, "names": list(clustering.names), "merged": dict(clustering.merged)})

    def apply(self, verb: str, arguments: Mapping[str, Any]) -> None:
        """Apply an edit, given by its verb and keyword arguments."""
        if verb not in VERBS:
            raise ValueError(f"There is no verb {verb!r}; choose from {', '.join(VERBS)}.")
        method = getattr(self, verb)
        try:
            inspect.signature(method).bind(**arguments)
        except TypeError as error:
            raise ValueError(f"The arguments of {verb} are not valid: {error}.") from None
        method(**arguments)

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
        members = np.flatnonzero(np.isin(self.labels, numbers))
        self._write("labels")[members] = target
        self.merged = {c: target if to in gone else to for c, to in self.merged.items()} | dict.fromkeys(gone, target)
        self.merged.pop(target, None)  # images were moved back to it after it had been merged
        if self.excluded in gone:
            self.excluded = None
        if self.memberships is not None:
            margin = self.confidence - self.memberships.total(numbers)
            if self.runner_up is not None:
                now_second = np.isin(self.runner_up, gone) | (margin < self.margin)
                self.runner_up = np.where(now_second, target, self.runner_up)
            self.margin = np.minimum(self.margin, margin)
            certain = self.memberships.certain
            if certain is not None:
                certain = np.where(np.isin(certain, gone), np.int32(target), certain)
            self._change(Merge(numbers), certain=certain)
            self._update_confidence(members)

    def move(self, rows: ArrayLike, cluster: int | str) -> None:
        rows, target = self._movable(rows), self.number(cluster)
        self._write("labels")[rows] = target
        self._write("confidence")[rows] = 1
        self._write("margin")[rows] = 1
        if self.runner_up is not None:
            self._write("runner_up")[rows] = -1
        if self.memberships is not None:
            certain = self.memberships.certain
            certain = np.full(len(self.labels), -1, np.int32) if certain is None else certain.copy()
            certain[rows] = target
            self.memberships = dataclasses.replace(self.memberships, certain=certain)

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
            self._relabel(rows, np.full(len(rows), target))

    def divide(self, parents: Sequence[int], labels: Int64) -> None:
        """Append a cluster for each of ``parents``, named after it, and give the images other ``labels (n,)``."""
        for parent in parents:
            self._add(self._unused(self.names[parent]))
        rows = np.flatnonzero(labels != self.labels)
        self._relabel(rows, labels[rows])

    def reject(self, rows: ArrayLike, clusters: Sequence[int | str]) -> None:
        rows, rejected = self._movable(rows), [self.number(cluster) for cluster in clusters]
        if not rejected or self.excluded in rejected:
            raise ValueError(f"Rejecting needs clusters other than that of excluded images, but got {list(clusters)}.")
        wrong = np.isin(self.labels[rows], rejected)
        possible = np.zeros(len(rows), np.bool_)
        if self.memberships is not None:
            remaining = self.memberships[rows]
            remaining[:, rejected] = 0
            possible = remaining.max(axis=1) > 0
            best = remaining.argmax(axis=1)
            certain = self.memberships.certain
            self._change(Reject(rows[possible if certain is None else possible & (certain[rows] < 0)], rejected))
            self._write("labels")[rows[possible & wrong]] = best[possible & wrong]
            self._update_confidence(rows[possible])
        if (wrong & ~possible).any():
            self.exclude(rows[wrong & ~possible])

    def refine(
        self,
        rows: ArrayLike,
        clusters: ArrayLike,
        confidence: ArrayLike | None = None,
        margin: ArrayLike | None = None,
        model: str | None = None,
    ) -> None:
        index, targets = row_numbers(rows), row_numbers(clusters)
        if len(self._movable(index)) < len(index):
            raise ValueError("A refinement must give each image once.")
        for values, name in ((targets, "clusters"), (confidence, "confidence"), (margin, "margin")):
            if values is not None and np.shape(values) != index.shape:
                raise ValueError(f"A refinement of {len(index)} images has {name} of shape {np.shape(values)}.")
        for cluster in np.unique(targets).tolist():
            self.number(cluster)
        order = np.argsort(index)
        self._relabel(index[order], targets[order])
        if confidence is not None:
            self._write("confidence")[index] = confidence
        if margin is not None:
            self._write("margin")[index] = margin

    def batch(self, edits: Sequence[tuple[str, Mapping[str, Any]]]) -> None:
        if not edits:
            raise ValueError("A batch needs at least one edit.")
        for verb, arguments in edits:
            if verb == "batch":
                raise ValueError("A batch cannot hold another batch; give the edits of both in one list.")
            self.apply(verb, arguments)

    def lock(self, rows: ArrayLike) -> None:
        self._write("locked")[self._rows(rows)] = True

    def unlock(self, rows: ArrayLike) -> None:
        self._write("locked")[self._rows(rows)] = False

    def number(self, cluster: int | str) -> int:
        """The number of a cluster, given by number or name."""
        return cluster_number(cluster, self.names)

    def _relabel(self, rows: Int64, targets: Int64) -> None:
        """Give ascending ``rows`` other clusters, which exchange their probabilities with the former ones.

        Confidence and margin stay the same.
        """
        origins = self.labels[rows]
        self._write("labels")[rows] = targets
        if self.runner_up is not None:
            second = self.runner_up[rows]
            self._write("runner_up")[rows] = np.where(second == targets, origins, second)
        if self.memberships is not None:
            certain = self.memberships.certain
            if certain is not None:
                certain = certain.copy()
                certain[rows] = np.where(certain[rows] >= 0, targets, -1)
            self._change(Exchange(rows, origins, targets), certain=certain)

    def _change(self, change: Change, **fields: Any) -> None:
        """Append a change of the probabilities."""
        if self.memberships is not None:
            changes = (*self.memberships.changes, change)
            self.memberships = dataclasses.replace(self.memberships, changes=changes, **fields)

    def _update_confidence(self, rows: Int64) -> None:
        """Compute confidence, margin and, if it is known, runner-up of ``rows`` from the probabilities."""
        if self.memberships is not None:
            confidence, margin = self._write("confidence"), self._write("margin")
            for block, values in self.memberships.blocks(rows):
                index = rows[block]
                confidence[index], margin[index] = confidence_and_margin(self.labels[index], values)
                if self.runner_up is not None:
                    self._write("runner_up")[index] = best_other(self.labels[index], values)

    def _write(self, name: str) -> NDArray[Any]:
        """The array ``name`` for writing: a copy, unless the draft has one already."""
        array: NDArray[Any] = getattr(self, name)
        if not array.flags.writeable:  # of the clustering, whose arrays are read-only
            array = array.copy()
            setattr(self, name, array)
        return array

    def _add(self, name: str | None) -> int:
        """Append an empty cluster and return its number."""
        number = len(self.names)
        self.names.append(self._unused(default_name(number)) if name is None else self._free(name))
        if self.memberships is not None:
            self.memberships = dataclasses.replace(self.memberships, k=number + 1)
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
            verb, them = ("is", "it") if locked == 1 else ("are", "them")
            raise ValueError(
                f"{locked:,} of the {len(checked):,} images {verb} locked; unlock {them} before moving {them}."
            )
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
