"""Which images of a catalog the shards of a feature store contain, and which remain to be embedded."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import numpy.typing as npt

from cgmcr2.features.shards import read_index, shard_numbers
from cgmcr2.images import Catalog


class Coverage:
    """Shard and row of each image of a catalog, or the reason why it could not be read."""

    def __init__(self, path: Path, catalog: Catalog) -> None:
        self.shard = np.full(len(catalog), -1, np.int64)  # -1: not in any shard
        self.row = np.full(len(catalog), -1, np.int64)
        self.reasons: dict[int, str] = {}
        self.numbers = shard_numbers(path)
        self.damaged = 0
        positions, sizes, stamps = catalog.positions, catalog.sizes.tolist(), catalog.stamps.tolist()

        def position(id: str, size: int, stamp: int) -> int | None:
            """Return the position of an image in the catalog, None if it has changed or was removed."""
            index = positions.get(id)
            return index if index is not None and sizes[index] == size and stamps[index] == stamp else None

        for number in self.numbers:
            try:
                shard = read_index(path, number)
            except ValueError:
                self.damaged += 1
                continue
            for row, entry in enumerate(zip(shard.ids, shard.sizes, shard.stamps, strict=True)):
                index = position(*entry)
                if index is not None and self.shard[index] < 0:
                    self.shard[index], self.row[index] = number, row
            for id, size, stamp, reason in shard.errors:
                index = position(id, size, stamp)
                if index is not None:
                    self.reasons[index] = reason
        self.reasons = {index: reason for index, reason in self.reasons.items() if self.shard[index] < 0}
        self.untried = self.shard < 0  # (n,)
        self.untried[list(self.reasons)] = False

    def plan(
        self, shard_size: int, shard_index: int, num_shards: int, *, retry_errors: bool = False
    ) -> list[tuple[int, npt.NDArray[np.int64]]]:
        """Return number and image indices of each shard that this machine has to compute."""
        assigned = np.arange(len(self.shard)) // shard_size % num_shards == shard_index
        parts = _split(np.flatnonzero(self.untried & assigned), shard_size)
        if retry_errors:  # in separate shards at the end, so that the other shards do not change
            parts += _split(np.array(sorted(i for i in self.reasons if assigned[i]), np.int64), shard_size)
        used = set(self.numbers)
        free = (number for number in itertools.count(shard_index, num_shards) if number not in used)
        return list(zip(free, parts, strict=False))

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
