"""Which images of a catalog the shards of a feature store contain, and which remain to be embedded."""

from __future__ import annotations

import itertools
from collections.abc import Container
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from cgmcr2._checksums import DamagedFileError
from cgmcr2.features.shards import read_index, shard_numbers, verify_rows
from cgmcr2.images import Catalog


class Part(NamedTuple):
    """The images of one shard that remains to be written."""

    number: int  # of the shard
    images: npt.NDArray[np.int64]  # indices in the catalog
    reasons: dict[int, str]  # why images that are tried again could not be read


class Coverage:
    """Shard and row of each image of a catalog, or the reason why it could not be read.

    Parameters
    ----------
    path : Path
        Folder of the store.
    catalog : Catalog
        The images.
    shards : container of int, optional
        Shards whose rows are verified; default: all.

    Attributes
    ----------
    shard, row : ndarray of shape (n,)
        Location of each image, -1 if no intact shard contains it.
    reasons : dict
        Why images could not be read.
    untried : ndarray of shape (n,)
        Mask of the images that remain to be embedded.
    damaged : dict
        Numbers of the damaged shards, and the images of each if its index is intact.
    """

    def __init__(self, path: Path, catalog: Catalog, shards: Container[int] | None = None) -> None:
        self.shard = np.full(len(catalog), -1, np.int64)
        self.row = np.full(len(catalog), -1, np.int64)
        self.reasons: dict[int, str] = {}
        self.numbers: list[int] = []
        self.damaged: dict[int, npt.NDArray[np.int64]] = {}
        self._positions = catalog.positions
        self._versions = list(zip(catalog.sizes.tolist(), catalog.stamps.tolist(), strict=True))
        for number in shard_numbers(path):
            self._add_shard(path, number, verify=shards is None or number in shards)
        self.reasons = {index: reason for index, reason in self.reasons.items() if self.shard[index] < 0}
        self.untried = self.shard < 0  # (n,)
        self.untried[list(self.reasons)] = False

    def _add_shard(self, path: Path, number: int, *, verify: bool) -> None:
        try:
            shard = read_index(path, number)
        except DamagedFileError:
            self.damaged[number] = np.zeros(0, np.int64)
            return
        rows = [self._position(*entry) for entry in zip(shard.ids, shard.sizes, shard.stamps, strict=True)]
        errors = [self._position(*error[:3]) for error in shard.errors]
        try:
            if verify:
                verify_rows(path, number, shard)
        except DamagedFileError:
            images = {index for index in (*rows, *errors) if index is not None}
            self.damaged[number] = np.array(sorted(images), np.int64)
            return
        self.numbers.append(number)
        for row, index in enumerate(rows):
            if index is not None and self.shard[index] < 0:
                self.shard[index], self.row[index] = number, row
        for index, error in zip(errors, shard.errors, strict=True):
            if index is not None:
                self.reasons[index] = error[3]

    def _position(self, id: str, size: int, stamp: int) -> int | None:
        """Return the position of an image in the catalog, None if it has changed or was removed."""
        index = self._positions.get(id)
        return index if index is not None and self._versions[index] == (size, stamp) else None

    def plan(self, shard_size: int, shards: Container[int] | None = None, *, retry_errors: bool = False) -> list[Part]:
        """Return the shards that remain to be written; of these only ``shards``, if given.

        Except for images that are tried again, the plan does not depend on which of its shards exist already. A damaged
        shard whose index is intact is computed again from the same images, so its bytes do not change.
        """
        pending = self.untried.copy()
        parts: list[Part] = []
        for number, images in self.damaged.items():
            images = images[pending[images]]
            if len(images):
                parts.append(Part(number, images, {}))
                pending[images] = False
        splits = _split(np.flatnonzero(pending), shard_size)
        if retry_errors:  # in separate shards at the end, so that the other shards do not change
            splits += _split(np.array(sorted(self.reasons), np.int64), shard_size)
        used = {*self.numbers, *(part.number for part in parts)}
        free = (number for number in itertools.count() if number not in used)
        for number, images in zip(free, splits, strict=False):
            reasons = {index: self.reasons[index] for index in images.tolist() if index in self.reasons}
            parts.append(Part(number, images, reasons))
        return sorted((part for part in parts if shards is None or part.number in shards), key=lambda part: part.number)

    def runs(self) -> list[tuple[int, int, int]]:
        """Return the rows in catalog order as ranges (shard, first row, number of rows)."""
        has_row = self.shard >= 0
        shard, row = self.shard[has_row], self.row[has_row]
        if not len(row):
            return []
        starts = np.flatnonzero(np.r_[True, (np.diff(shard) != 0) | (np.diff(row) != 1)])
        lengths = np.diff(np.r_[starts, len(row)])
        return list(zip(shard[starts].tolist(), row[starts].tolist(), lengths.tolist(), strict=True))


def _split(indices: npt.NDArray[np.int64], length: int) -> list[npt.NDArray[np.int64]]:
    return [indices[start : start + length] for start in range(0, len(indices), length)]
