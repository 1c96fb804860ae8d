"""The probabilities of an edited clustering, without a copy of the fitted ones."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

Int64 = NDArray[np.int64]
Float32 = NDArray[np.float32]

BLOCK_ROWS = 65_536  # rows held at once: the fitted probabilities may be larger than memory


@dataclasses.dataclass(frozen=True)
class Merge:
    """The columns ``clusters`` are added up in the first of them."""

    clusters: Sequence[int]

    def apply(self, P: Float32, rows: Int64) -> None:
        P[:, self.clusters[0]] = P[:, self.clusters].sum(axis=1)
        P[:, self.clusters[1:]] = 0


@dataclasses.dataclass(frozen=True)
class Exchange:
    """Each of ``rows``, which are ascending, exchanges its entries in the columns ``first`` and ``second``."""

    rows: Int64
    first: Int64
    second: Int64

    def apply(self, P: Float32, rows: Int64) -> None:
        positions, changed = _common(rows, self.rows)
        first, second = self.first[changed], self.second[changed]
        pair = P[positions, first], P[positions, second]
        P[positions, second], P[positions, first] = pair


@dataclasses.dataclass(frozen=True)
class Reject:
    """The entries of ``rows``, which are ascending, in the columns ``clusters`` become 0; the rest is scaled to 1."""

    rows: Int64
    clusters: Sequence[int]

    def apply(self, P: Float32, rows: Int64) -> None:
        positions, _ = _common(rows, self.rows)
        remaining = P[positions]
        remaining[:, self.clusters] = 0
        P[positions] = remaining / remaining.sum(axis=1, keepdims=True)


Change = Merge | Exchange | Reject


@dataclasses.dataclass(frozen=True)
class Memberships:
    """(n, k) probabilities, computed from the fitted ones for the rows that are read.

    Parameters
    ----------
    fitted : (n, fitted k) probabilities of the fit; may be memory-mapped
    k : number of columns; columns after those of the fit start as 0
    changes : what edits have changed, in this order
    certain : (n,) the cluster of each row of probability 1 there, -1 for others; this takes precedence over ``changes``

    >>> P = Memberships(np.array([[0.5, 0.25, 0.25], [0, 0, 1]], np.float32), 3, (Merge([1, 2]),))
    >>> P[:]
    array([[0.5, 0.5, 0. ],
           [0. , 1. , 0. ]], dtype=float32)
    """

    fitted: Float32
    k: int
    changes: tuple[Change, ...] = ()
    certain: NDArray[np.int32] | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """(n, k)."""
        return len(self.fitted), self.k

    @property
    def is_fitted(self) -> bool:
        """Whether these are the fitted probabilities, without a change."""
        return not self.changes and self.certain is None and self.k == self.fitted.shape[1]

    def __getitem__(self, rows: slice | Int64) -> Float32:
        """The probabilities (m, k) of a slice or an array of rows."""
        index = np.arange(len(self.fitted))[rows]
        P = np.zeros((len(index), self.k), np.float32)
        P[:, : self.fitted.shape[1]] = self.fitted[rows]
        for change in self.changes:
            change.apply(P, index)
        if self.certain is not None:
            clusters = self.certain[index]
            positions = np.flatnonzero(clusters >= 0)
            P[positions] = 0
            P[positions, clusters[positions]] = 1
        return P

    def blocks(self, rows: Int64 | None = None) -> Iterator[tuple[slice, Float32]]:
        """Blocks of all rows, or of ``rows``, each with its position."""
        n = len(self.fitted) if rows is None else len(rows)
        for start in range(0, n, BLOCK_ROWS):
            block = slice(start, min(start + BLOCK_ROWS, n))
            yield block, self[block if rows is None else rows[block]]

    def dense(self) -> Float32:
        """All probabilities (n, k)."""
        if self.is_fitted:
            return self.fitted
        P = np.empty(self.shape, np.float32)
        for block, values in self.blocks():
            P[block] = values
        return P

    def total(self, clusters: Sequence[int]) -> Float32:
        """(n,) probability of each row in any of ``clusters``; reads only these columns of unchanged rows."""
        columns = np.arange(self.fitted.shape[1])  # the column that each fitted column was merged into
        for change in self.changes:
            if isinstance(change, Merge):
                columns[np.isin(columns, change.clusters)] = change.clusters[0]
        total: Float32 = self.fitted[:, np.flatnonzero(np.isin(columns, clusters))].sum(axis=1)
        changed = _union(change.rows for change in self.changes if not isinstance(change, Merge))
        for block, values in self.blocks(changed):
            total[changed[block]] = values[:, clusters].sum(axis=1)
        if self.certain is not None:
            certain = self.certain >= 0
            total[certain] = np.isin(self.certain[certain], clusters)
        return total


def best_other(labels: Int64, P: Float32) -> Int64:
    """(n,) the column of the largest entry of each row of ``P (n, k)`` other than its label; -1 if all are 0."""
    others = P.copy()
    others[np.arange(len(P)), labels] = 0
    best = others.argmax(axis=1)
    return np.where(others[np.arange(len(P)), best] > 0, best, -1)


def _union(arrays: Iterable[Int64]) -> Int64:
    return np.unique(np.concatenate([np.empty(0, np.int64), *arrays]))


def _common(rows: Int64, changed: Int64) -> tuple[Int64, Int64]:
    """The positions in ``rows`` and in the ascending ``changed`` of the rows that are in both.

    >>> _common(np.array([7, 3, 3]), np.array([2, 3, 9]))
    (array([1, 2]), array([1, 1]))
    """
    if len(changed) < len(rows) and (np.diff(rows) > 0).all():  # few changes: look them up, not the rows
        second, first = _common(changed, rows)
        return first, second
    places = np.searchsorted(changed, rows)
    positions = np.flatnonzero(places < len(changed))
    positions = positions[changed[places[positions]] == rows[positions]]
    return positions, places[positions]
