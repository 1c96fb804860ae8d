"""Feature store: a folder of shards and a manifest, read like one array without loading it.

The manifest lists which rows of the shards form the array, and in which order. If photos are added, changed or removed,
only their rows are computed; concurrent readers see either the old or the new array.
"""

from __future__ import annotations

import csv
import functools
import hashlib
import io
import json
import os
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
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
from cgmcr2.features.sources import FeatureSource, release


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
        # memory maps stay open for random access, but each uses a file descriptor
        self._map = functools.lru_cache(_max_open_maps())(self._verified_rows)

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
        path = Path(path)
        if len(features.shape) != 2:
            raise ValueError(f"Features must have shape (n_samples, n_features), but have {tuple(features.shape)}.")
        rows, dim = features.shape
        ids = [str(row) for row in range(rows)] if ids is None else list(ids)
        if len(ids) != rows or len(set(ids)) != rows:
            raise ValueError(f"{rows} rows need {rows} unique ids, but there are {len(ids)} ({len(set(ids))} unique).")
        manifest = Manifest(encoder, fingerprint, "", dim, dtype, shard_size)
        prepare_store(path, manifest, must_be_new=True)
        manifest.runs = []
        for number, start in enumerate(range(0, rows, shard_size)):
            with np.errstate(over="ignore"):
                block = np.asarray(features[start : start + shard_size]).astype(dtype)
            if not np.isfinite(block).all():
                raise ValueError(
                    f"The features of rows {start} to {start + len(block) - 1} are not all finite in {dtype}."
                )
            zeros = [0] * len(block)
            index = ShardIndex(ids[start : start + shard_size], zeros, zeros, identity=manifest.identity)
            write_shard(path, number, block, index)
            manifest.runs.append((number, 0, len(block)))
        manifest.write(path)
        return cls(path, manifest)

    @property
    def shape(self) -> tuple[int, int]:
        return len(self), self.manifest.dim

    @property
    def dim(self) -> int:
        return self.manifest.dim

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
        content = [*self.manifest.identity, *self._entries()]
        return hashlib.sha256(json.dumps(content).encode()).hexdigest()

    @functools.cached_property
    def ids(self) -> list[str]:
        """Id of each row."""
        return [id for id, _ in self._entries()]

    def _entries(self) -> list[tuple[str, int]]:
        """Return id and checksum of each row."""
        read = functools.lru_cache(64)(functools.partial(read_index, self.path))  # runs may alternate between shards
        entries: list[tuple[str, int]] = []
        for shard, first, count in self._runs.tolist():
            rows = slice(first, first + count)
            entries += zip(read(shard).ids[rows], read(shard).checksums[rows], strict=True)
        return entries

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
        for group in np.split(order, np.flatnonzero(np.diff(shard[order])) + 1):
            if len(group):
                shard_rows = self._map(int(shard[group[0]]))
                values[group] = shard_rows[row_in_shard[group]]
                release(shard_rows)
        return values

    def _verified_rows(self, shard: int) -> npt.NDArray[np.floating[Any]]:
        rows = map_rows(self.path, shard, self.dim, self.manifest.dtype)
        _, first, count = self._runs[self._runs[:, 0] == shard].T  # (runs of the shard,)
        if (first + count).max() > len(rows):
            raise DamagedFileError(
                f"{self.path / MANIFEST} is damaged (it refers to row {(first + count).max() - 1} of shard {shard}, "
                f"which has {len(rows)} rows); {ADVICE}."
            )
        return rows

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
                    self._verified_rows(number)
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

    def close(self) -> None:
        """Close the open files; the next read opens them again."""
        self._map.cache_clear()

    def __enter__(self) -> FeatureStore:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        return FeatureStore, (self.path, self.manifest)  # every process opens its own memory maps


def _max_open_maps() -> int:
    """Return how many memory maps may be open: a quarter of the limit on file descriptors, 8 to 512."""
    try:
        import resource
    except ImportError:  # Windows
        return 128
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return 512 if limit == resource.RLIM_INFINITY else max(8, min(512, limit // 4))
