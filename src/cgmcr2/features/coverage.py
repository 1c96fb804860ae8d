"""Which images of a catalog the shards of a feature store contain, and which remain to be embedded."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import numpy.typing as npt

from cgmcr2._checksums import DamagedFileError
from cgmcr2.features.shards import read_index, shard_numbers, verify_rows
from cgmcr2.images import Catalog


class Coverage:
    """Shard and row of each image of a catalog, or the reason why it could not be read.

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

    def __init__(self, path: Path, catalog: Catalog) -> None:
        self.shard = np.full(len(catalog), -1, np.int64)
        self.row = np.full(len(catalog), -1, np.int64)
        self.reasons: dict[int, str] = {}
        self.numbers: list[int] = []
        self.damaged: dict[int, npt.NDArray[np.int64]] = {}
        self._positions = catalog.positions
        self._versions = list(zip(catalog.sizes.tolist(), catalog.stamps.tolist(), strict=True))
        for number in shard_numbers(path):
            self._add_shard(path, number)
        self.reasons = {index: reason for index, reason in self.reasons.items() if self.shard[index] < 0}
        self.untried = self.shard < 0  # (n,)
        self.untried[list(self.reasons)] = False

    def _add_shard(self, path: Path, number: int) -> None:
        try:
            shard = read_index(path, number)
        except DamagedFileError:
            self.damaged[number] = np.zeros(0, np.int64)
            return
        rows = [self._position(*entry) for entry in zip(shard.ids, shard.sizes, shard.stamps, strict=True)]
        errors = [self._position(*error[:3]) for error in shard.errors]
        try:
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

    def plan(
        self, shard_size: int, shard_index: int, num_shards: int, *, retry_errors: bool = False
    ) -> list[tuple[int, npt.NDArray[np.int64]]]:
        """Return number and image indices of each shard that this machine has to compute.

        A damaged shard whose index is intact is computed again from the same images, so its bytes do not change.
        """
        assigned = np.arange(len(self.shard)) // shard_size % num_shards == shard_index
        pending = self.untried & assigned
        shards: list[tuple[int, npt.NDArray[np.int64]]] = []
        for number, images in self.damaged.items():
            images = images[pending[images]]
            if len(images) and number % num_shards == shard_index:
                shards.append((number, images))
                pending[images] = False
        parts = _split(np.flatnonzero(pending), shard_size)
        if retry_errors:  # in separate shards at the end, so that the other shards do not change
            parts += _split(np.array(sorted(i for i in self.reasons if assigned[i]), np.int64), shard_size)
        used = {*self.numbers, *(number for number, _ in shards)}
        free = (number for number in itertools.count(shard_index, num_shards) if number not in used)
        return sorted([*shards, *zip(free, parts, strict=False)], key=lambda shard: shard[0])

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
