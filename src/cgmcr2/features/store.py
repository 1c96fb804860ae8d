"""Feature store: a folder of shards and a manifest, read like one array without loading it.

The manifest lists which rows of the shards form the array, and in which order. If photos are added, changed or removed,
only their rows are computed; concurrent readers see either the old or the new array.
"""

from __future__ import annotations

import csv
import dataclasses
import functools
import hashlib
import io
import itertools
import json
import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from cgmcr2._checksums import DamagedFileError
from cgmcr2._files import write_text
from cgmcr2.features.manifest import FILE_NAME as MANIFEST
from cgmcr2.features.manifest import Manifest, prepare_store
from cgmcr2.features.sealed import ADVICE
from cgmcr2.features.shards import (
    ShardIndex,
    find_damage,
    map_rows,
    read_index,
    shard_numbers,
    shard_paths,
    write_shard,
)
from cgmcr2.features.sources import FeatureSource

BLOCK_ROWS = 65_536  # entries of the index that are encoded at once
READ_ROWS = 8_192  # rows that are read before they are converted to float32


class FeatureStore:
    """Features of shape (n, dim) in a folder; ``store[rows]`` reads only these rows, as float32.

    Attributes
    ----------
    path : Path
        The folder.
    manifest : Manifest
        Content of ``manifest.json``.
    errors : list of (id, reason)
        Images that could not be embedded.
    added : int
        Number of rows computed by the call of ``extract`` that returned this store.

    Examples
    --------
    >>> import tempfile
    >>> X = np.random.default_rng(0).normal(size=(10, 3)).astype(np.float32)
    >>> store = FeatureStore.create(tempfile.mkdtemp() + "/store", X, shard_size=4)
    >>> store.shape, store.ids[:3]
    ((10, 3), ['0', '1', '2'])
    >>> bool((store[[7, 2, 7]] == X[[7, 2, 7]]).all())
    True
    """

    def __init__(self, path: str | os.PathLike[str], manifest: Manifest) -> None:
        self.path = Path(path)
        self.manifest = manifest
        self.errors = manifest.errors
        self.added = 0
        self._runs = np.array(manifest.runs or [], np.int64).reshape(-1, 3)
        self._ends = np.cumsum(self._runs[:, 2])
        self._location = functools.cache(self._verified_location)

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, partial: bool = False) -> FeatureStore:
        """Open the store at ``path``; an unfinished store is refused unless ``partial`` is true."""
        path = Path(path)
        manifest = Manifest.read(path)
        if manifest.runs is None:
            if not partial:
                raise ValueError(f"The feature store {str(path)!r} is not finished: {ADVICE}.")
            indices = [(number, read_index(path, number)) for number in shard_numbers(path)]
            manifest.runs = [(number, 0, len(index.ids)) for number, index in indices if index.ids]
            manifest.errors = [(error[0], error[3]) for _, index in indices for error in index.errors]
        shards = {shard for shard, _, _ in manifest.runs}
        missing = [number for number in shards if not shard_paths(path, number)[0].is_file()]
        if missing:
            raise DamagedFileError(
                f"The feature store {str(path)!r} lacks {len(missing)} of its {len(shards)} shards, such as "
                f"{shard_paths(path, min(missing))[0].name}; {ADVICE}."
            )
        return cls(path, manifest)

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        features: FeatureSource,
        ids: Sequence[str] | None = None,
        *,
        encoder: str = "array",
        fingerprint: str = "",
        dtype: str = "float32",
        shard_size: int = 4096,
    ) -> FeatureStore:
        """Write ``features`` of shape (n, D) to a new store; the default ids are the row numbers."""
        if len(features.shape) != 2:
            raise ValueError(f"Features must have shape (n_samples, n_features), but have {tuple(features.shape)}.")
        manifest = Manifest(encoder, fingerprint, "", features.shape[1], dtype, shard_size)
        ids = _checked_ids(ids, features.shape[0])
        prepare_store(Path(path), manifest, must_be_new=True)
        return cls(path, manifest)._add(features, ids)

    def append(self, features: FeatureSource, ids: Sequence[str] | None = None) -> FeatureStore:
        """Write ``features`` of shape (m, D) to new shards at the end, and return the store of all rows.

        The default ids are the row numbers. Rows that were appended to a store of images are dropped when the images
        are embedded again.

        >>> import tempfile
        >>> store = FeatureStore.create(tempfile.mkdtemp() + "/store", np.eye(2))
        >>> store.append(np.ones((1, 2))).ids
        ['0', '1', '2']
        """
        if len(features.shape) != 2 or features.shape[1] != self.dim:
            raise ValueError(f"Rows to append must have shape (m, {self.dim}), but have {tuple(features.shape)}.")
        return self._add(features, _checked_ids(ids, features.shape[0], self.ids))

    def _add(self, features: FeatureSource, ids: Sequence[str]) -> FeatureStore:
        size, dtype = self.manifest.shard_size, self.manifest.dtype
        runs = list(self.manifest.runs or [])
        starts = range(0, features.shape[0], size)
        for number, start in enumerate(starts, max(shard_numbers(self.path), default=-1) + 1):
            with np.errstate(over="ignore"):
                block = np.asarray(features[start : start + size]).astype(dtype)
            if not np.isfinite(block).all():
                raise ValueError(
                    f"The features of rows {start} to {start + len(block) - 1} are not all finite in {dtype}."
                )
            zeros = [0] * len(block)
            index = ShardIndex(list(ids[start : start + size]), zeros, zeros, identity=self.manifest.identity)
            write_shard(self.path, number, block, index)
            runs.append((number, 0, len(block)))
        return self._replace_manifest(runs)

    def _replace_manifest(self, runs: list[tuple[int, int, int]]) -> FeatureStore:
        manifest = dataclasses.replace(self.manifest, runs=runs)
        manifest.write(self.path)
        return FeatureStore(self.path, manifest)

    def compact(self) -> FeatureStore:
        """Rewrite shards that are short, out of order or have unused rows as full ones, and return the store.

        Images that were added, changed or removed leave short shards and unused rows behind. Ids, rows and
        ``content_fingerprint`` stay the same. The old shards are deleted last, so an interrupted call loses nothing and
        can be repeated; other processes must open the store again.

        >>> import tempfile
        >>> store = FeatureStore.create(tempfile.mkdtemp() + "/store", np.eye(2)).append(np.ones((1, 2)))
        >>> store.compact().manifest.runs
        [(2, 0, 3)]
        """
        size, runs = self.manifest.shard_size, self.manifest.runs or []
        rows: dict[int, int] = {}
        errors: dict[int, list[tuple[str, int, int, str]]] = {}
        for number in shard_numbers(self.path):
            index = read_index(self.path, number)
            rows[number], errors[number] = len(index.ids), index.errors
        if len(rows) == len(runs) == math.ceil(len(self) / size) and sum(rows.values()) == len(self):
            return self
        full = list(itertools.takewhile(lambda run: run[1:] == (0, size) and rows[run[0]] == size, runs))
        if full == runs:
            full = full[:-1]  # the shard that is written instead lists the errors
        obsolete = rows.keys() - {number for number, _, _ in full}
        unreadable = {id for id, _ in self.errors}
        latest = {error[0]: error for number in obsolete for error in errors[number] if error[0] in unreadable}
        new = self._copy_rows(len(full) * size, max(rows) + 1, list(latest.values()))
        store = self._replace_manifest([*full, *new])
        for number in obsolete:
            for file in shard_paths(self.path, number):
                file.unlink()
        return store

    def _copy_rows(
        self, first_row: int, first_shard: int, errors: list[tuple[str, int, int, str]]
    ) -> list[tuple[int, int, int]]:
        """Write the rows from ``first_row`` on to new shards, and return their runs; the first one lists ``errors``."""
        ids, columns = self._index
        runs: list[tuple[int, int, int]] = []
        starts = range(first_row, len(self), self.manifest.shard_size)
        for number, start in enumerate(starts, first_shard):
            rows = slice(start, start + self.manifest.shard_size)
            block = self[rows].astype(self.manifest.dtype)
            sizes, stamps, checksums = columns[rows].T.tolist()
            index = ShardIndex(ids[rows], sizes, stamps, errors=[] if runs else errors, identity=self.manifest.identity)
            write_shard(self.path, number, block, index)
            if index.checksums != checksums:
                raise DamagedFileError(f"The feature store {str(self.path)!r} is damaged; {ADVICE}.")
            runs.append((number, 0, len(block)))
        return runs

    @property
    def shape(self) -> tuple[int, int]:
        return len(self), self.manifest.dim

    @property
    def dim(self) -> int:
        return self.manifest.dim

    @property
    def spaces(self) -> tuple[int, ...]:
        """Dimensions of each feature space: of each encoder, if there are several."""
        return tuple(self.manifest.spaces) or (self.dim,)

    @property
    def dtype(self) -> np.dtype[np.float32]:
        """Data type of the rows that are read; the type on disk is ``store.manifest.dtype``."""
        return np.dtype(np.float32)

    @property
    def fingerprint(self) -> str:
        """Fingerprint of the encoder."""
        return self.manifest.fingerprint

    @functools.cached_property
    def content_fingerprint(self) -> str:
        """Hash of encoder, ids and rows in order; it does not depend on how rows are distributed over shards."""
        ids, columns = self._index
        state = hashlib.sha256(json.dumps(self.manifest.identity)[:-1].encode())
        for start in range(0, len(ids), BLOCK_ROWS):  # the JSON of one list of all entries, in parts
            rows = slice(start, start + BLOCK_ROWS)
            entries = zip(ids[rows], columns[rows, 2].tolist(), strict=True)
            state.update(f", {json.dumps(list(entries))[1:-1]}".encode())
        state.update(b"]")
        return state.hexdigest()

    @functools.cached_property
    def ids(self) -> list[str]:
        """Id of each row."""
        return self._index[0]

    @functools.cached_property
    def _index(self) -> tuple[list[str], npt.NDArray[np.int64]]:
        """Ids (n,), and (n, 3) the size and stamp of each image and the checksum of its row."""
        ids, columns = [""] * len(self), np.empty((len(self), 3), np.int64)
        starts = self._ends - self._runs[:, 2]
        for shard in np.unique(self._runs[:, 0]).tolist():  # runs may alternate between shards
            index = read_index(self.path, shard)
            values = np.array([index.sizes, index.stamps, index.checksums], np.int64).T
            of_shard = self._runs[:, 0] == shard
            for start, (_, first, count) in zip(starts[of_shard], self._runs[of_shard], strict=True):
                if first + count > len(values):
                    raise self._bad_reference(first + count - 1, shard, len(values))
                ids[start : start + count] = index.ids[first : first + count]
                columns[start : start + count] = values[first : first + count]
        return ids, columns

    def __len__(self) -> int:
        return int(self._ends[-1]) if len(self._ends) else 0

    def __repr__(self) -> str:
        return f"FeatureStore({str(self.path)!r}: {len(self)} x {self.dim} by {self.manifest.encoder})"

    def __getitem__(self, rows: Any, /) -> npt.NDArray[np.float32]:
        """Return rows by slice, indices or mask, shape (m, dim); for one index, shape (dim,)."""
        if isinstance(rows, int | np.integer):
            row: npt.NDArray[np.float32] = self[[range(len(self))[rows]]][0]
            return row
        indices = self._indices(rows)  # (m,)
        run = np.searchsorted(self._ends, indices, side="right")
        shard = self._runs[run, 0]
        row_in_shard = indices - (self._ends[run] - self._runs[run, 2]) + self._runs[run, 1]
        values = np.empty((len(indices), self.dim), np.float32)
        order = np.lexsort((row_in_shard, shard))  # read each shard once, in ascending order
        for part in np.split(order, range(READ_ROWS, len(order), READ_ROWS)):
            if len(part):
                values[part] = self._read(shard[part], row_in_shard[part])
        return values

    def _read(self, shards: npt.NDArray[np.int64], rows: npt.NDArray[np.int64]) -> npt.NDArray[np.floating[Any]]:
        """Return ``rows`` of ``shards``, both of shape (m,) and sorted, as they are on disk.

        Files are read and closed, not mapped: a memory map uses a file descriptor, and a large store has more shards
        than a process may have open files.
        """
        values = np.empty((len(rows), self.dim), self.manifest.dtype)
        view, size = values.data.cast("B"), values.strides[0]
        starts = np.flatnonzero(np.r_[True, (np.diff(shards) != 0) | (np.diff(rows) != 1)])  # of consecutive rows
        stops = [*starts[1:].tolist(), len(rows)]
        reads = zip(shards[starts].tolist(), rows[starts].tolist(), starts.tolist(), stops, strict=True)
        for shard, group in itertools.groupby(reads, key=lambda read: read[0]):
            path, offset = self._location(shard)
            with open(path, "rb", buffering=0) as file:
                for _, row, start, stop in group:
                    file.seek(offset + row * size)
                    missing = view[start * size : stop * size]
                    while missing:  # network file systems may return less than requested
                        count = file.readinto(missing)
                        if not count:
                            raise DamagedFileError(f"{path} is damaged (it has become shorter); {ADVICE}.")
                        missing = missing[count:]
        return values

    def _verified_location(self, shard: int) -> tuple[str, int]:
        """Verify a shard, and return the path of its rows and the offset of the first one."""
        rows = map_rows(self.path, shard, self.dim, self.manifest.dtype)
        _, first, count = self._runs[self._runs[:, 0] == shard].T  # (runs of the shard,)
        if (first + count).max() > len(rows):
            raise self._bad_reference((first + count).max() - 1, shard, len(rows))
        path = shard_paths(self.path, shard)[0]
        return str(path), path.stat().st_size - rows.nbytes

    def _bad_reference(self, row: int, shard: int, rows: int) -> DamagedFileError:
        return DamagedFileError(
            f"{self.path / MANIFEST} is damaged (it refers to row {row} of shard {shard}, which has {rows} rows); "
            f"{ADVICE}."
        )

    def _indices(self, rows: Any) -> npt.NDArray[np.int64]:
        if isinstance(rows, slice):
            return np.arange(*rows.indices(len(self)))
        indices = np.asarray(rows)
        if indices.size == 0:
            return np.zeros(0, np.int64)
        if indices.dtype == bool and indices.shape == (len(self),):
            return np.flatnonzero(indices)
        if indices.ndim != 1 or not np.issubdtype(indices.dtype, np.integer):
            raise IndexError(
                f"Rows must be a slice, a list of integers or a mask of length {len(self)}, "
                f"not {indices.dtype} of shape {indices.shape}."
            )
        indices = indices.astype(np.int64)
        if indices.min() < -len(self) or indices.max() >= len(self):
            row = indices.min() if indices.min() < -len(self) else indices.max()
            raise IndexError(f"Row {row} is out of range for {len(self)} rows.")
        return np.where(indices < 0, indices + len(self), indices)

    def verify(self) -> None:
        """Read all files, and raise ``DamagedFileError`` if any is damaged."""
        from cgmcr2.features.annotations import read_annotations

        shards = np.unique(self._runs[:, 0]).tolist()
        damage = [text for number in shards for text in find_damage(self.path, number, self.dim, self.manifest.dtype)]
        if not damage:
            try:
                for number in shards:
                    self._verified_location(number)
                if len(set(self.ids)) != len(self):
                    damage.append("an id has more than one row")
                read_annotations(self)
            except DamagedFileError as error:
                damage.append(str(error))
        if damage:
            others = f" (and {len(damage) - 1} more)" if len(damage) > 1 else ""
            raise DamagedFileError(f"The feature store {str(self.path)!r} is damaged: {damage[0]}{others}; {ADVICE}.")

    def write_errors_csv(self, path: str | os.PathLike[str]) -> None:
        """Write the images that could not be embedded to a CSV with the columns path and reason."""
        text = io.StringIO(newline="")
        csv.writer(text).writerows([("path", "reason"), *self.errors])
        # bytes of a file name that are not UTF-8 become \udc.. so that every program can read the table
        write_text(path, text.getvalue().encode("utf-8", "backslashreplace").decode())

    def __reduce__(self) -> tuple[Any, ...]:
        return FeatureStore, (self.path, self.manifest)


def _checked_ids(ids: Sequence[str] | None, rows: int, present: Sequence[str] = ()) -> list[str]:
    """Return the ids of new rows, by default their row numbers; raise ``ValueError`` unless all ids are unique."""
    if ids is None:
        ids = [str(row) for row in range(len(present), len(present) + rows)]
    unique = len(set(ids).difference(present))
    if len(ids) != rows or unique != rows:
        raise ValueError(f"{rows} rows need {rows} unique ids, but there are {len(ids)} ({unique} unique).")
    return list(ids)
