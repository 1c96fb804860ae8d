"""Features on disk: a folder of shards and a manifest, read as one array without loading it.

Shards only ever hold what one run computed; the manifest says which of their rows, in which order, are the array. So a
photo that was added, changed or removed costs its own row and nothing else, and a reader sees the old array or the new.
"""

from __future__ import annotations

import csv
import functools
import hashlib
import io
import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt

from cgmcr2._files import write_text
from cgmcr2.features.shards import ShardIndex, damages, map_rows, read_index, shard_numbers, shard_paths, write_shard
from cgmcr2.features.sources import FeatureSource, release

DTYPES = ("float32", "float16")


@dataclass
class Manifest:
    """What ``manifest.json`` holds. Fingerprint to dtype say what a row is: rows that differ there never mix."""

    encoder: str
    fingerprint: str  # of the encoder: weights and preprocessing
    preprocessing: str  # how files were decoded before they came to the encoder
    dim: int
    dtype: str
    shard_size: int
    catalog: str | None = None  # hash of the list of images that the view shows
    runs: list[tuple[int, int, int]] | None = None  # the view: (shard, first row, rows) in order; None: not finished
    errors: list[tuple[str, str]] = field(default_factory=list)  # (id, reason) of the images that gave no row
    format: int = 1

    @classmethod
    def read(cls, path: Path) -> Manifest:
        """The manifest of the store at ``path``; a sentence says what is wrong if there is none."""
        if not (path / "manifest.json").is_file():
            kind = FileNotFoundError if not path.exists() else ValueError
            raise kind(f"{str(path)!r} is not a feature store (it has no manifest.json): make one with cgmcr2 embed.")
        try:
            manifest = cls(**json.loads((path / "manifest.json").read_text(encoding="utf-8")))
            if manifest.runs is not None:
                manifest.runs = [(int(shard), int(first), int(rows)) for shard, first, rows in manifest.runs]
            manifest.errors = [(str(id), str(reason)) for id, reason in manifest.errors]
        except (ValueError, TypeError) as error:
            raise ValueError(
                f"The manifest of the feature store {str(path)!r} is damaged ({error}): make the store again."
            ) from None
        if manifest.format != 1:
            raise ValueError(
                f"The feature store {str(path)!r} is of format {manifest.format}: update cgmcr2 to read it."
            )
        return manifest

    def write(self, path: Path) -> None:
        """Put this manifest into the store at ``path``: one line a field, plain ASCII (odd file names as escapes)."""
        lines = (f"  {json.dumps(name)}: {json.dumps(value)}" for name, value in asdict(self).items())
        write_text(path / "manifest.json", "{\n" + ",\n".join(lines) + "\n}\n")


class FeatureStore:
    """Rows of features in a folder, ``(n, dim)``; ``store[rows]`` reads just those, as float32.

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
        self.errors = manifest.errors  # (id, reason) of the images that have no row
        self.added = 0  # rows computed by the extract() that returned this store
        self._runs = np.array(manifest.runs or [], np.int64).reshape(-1, 3)
        self._ends = np.cumsum(self._runs[:, 2])
        # the maps of random batches stay open, but each holds a file descriptor
        self._map = functools.lru_cache(_max_maps())(functools.partial(map_rows, self.path))

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, partial: bool = False) -> FeatureStore:
        """Open the store at ``path``. One that was never finished is refused, or with ``partial`` shown as it is."""
        path = Path(path)
        manifest = Manifest.read(path)
        if manifest.runs is None:
            if not partial:
                raise ValueError(f"The feature store {str(path)!r} is not finished: run the same embed command again.")
            indices = [(number, read_index(path, number)) for number in shard_numbers(path)]
            manifest.runs = [(number, 0, len(index.ids)) for number, index in indices if index.ids]
            manifest.errors = [(error[0], error[3]) for _, index in indices for error in index.errors]
        lost = [number for number in {run[0] for run in manifest.runs} if not shard_paths(path, number)[0].is_file()]
        if lost:
            raise ValueError(
                f"The feature store {str(path)!r} has lost {shard_paths(path, min(lost))[0].name} "
                f"({len(lost)} missing in all): run the same embed command again."
            )
        return cls(path, manifest)

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        features: FeatureSource,
        ids: list[str] | None = None,
        *,
        encoder: str = "array",
        fingerprint: str = "",
        dtype: str = "float32",
        shard_size: int = 4096,
    ) -> FeatureStore:
        """Write ``features (n, D)`` as a store; ``ids`` are the row numbers if none are given."""
        path = Path(path)
        if len(features.shape) != 2:
            raise ValueError(f"Features must have the shape (rows, width), but have {tuple(features.shape)}.")
        rows, dim = features.shape
        ids = [str(row) for row in range(rows)] if ids is None else ids
        if len(ids) != rows or len(set(ids)) != rows:
            raise ValueError(
                f"{rows} rows need as many different ids, but {len(ids)} ({len(set(ids))} different) are given."
            )
        manifest = Manifest(encoder, fingerprint, "", dim, dtype, shard_size)
        prepare(path, manifest, must_be_new=True)
        manifest.runs = []
        for number, start in enumerate(range(0, rows, shard_size)):
            with np.errstate(over="ignore"):
                block = np.asarray(features[start : start + shard_size]).astype(dtype)
            if not np.isfinite(block).all():
                raise ValueError(
                    f"The features of rows {start} to {start + len(block) - 1} are not all finite in {dtype}."
                )
            none = [0] * len(block)
            write_shard(path, number, block, ShardIndex(ids[start : start + shard_size], none, none))
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
        """Of what is read; on disk it may be float16 (``store.manifest.dtype``)."""
        return np.dtype(np.float32)

    @property
    def fingerprint(self) -> str:
        """Of the encoder that made the features."""
        return self.manifest.fingerprint

    @functools.cached_property
    def content_fingerprint(self) -> str:
        """A hash of encoder, ids and rows in order: equal for equal features, however they are spread over shards."""
        content = [*_identity(self.manifest), *self._entries()]
        return hashlib.sha256(json.dumps(content).encode()).hexdigest()

    @functools.cached_property
    def ids(self) -> list[str]:
        """The id of each row."""
        return [id for id, _ in self._entries()]

    def _entries(self) -> list[tuple[str, int]]:
        """The id and the checksum of each row."""
        read = functools.lru_cache(64)(functools.partial(read_index, self.path))  # later additions lie in between
        entries: list[tuple[str, int]] = []
        for shard, first, count in self._runs.tolist():
            part = slice(first, first + count)
            entries += zip(read(shard).ids[part], read(shard).checksums[part], strict=True)
        return entries

    def __len__(self) -> int:
        return int(self._ends[-1]) if len(self._ends) else 0

    def __repr__(self) -> str:
        return f"FeatureStore({str(self.path)!r}: {len(self)} x {self.dim} by {self.manifest.encoder})"

    def __getitem__(self, rows: Any, /) -> npt.NDArray[np.float32]:
        """Rows by slice, list, array of numbers or mask -> ``(m, dim)``; one number -> ``(dim,)``."""
        if isinstance(rows, int | np.integer):
            one: npt.NDArray[np.float32] = self[[range(len(self))[rows]]][0]
            return one
        wanted = self._row_numbers(rows)  # (m,)
        run = np.searchsorted(self._ends, wanted, side="right")
        shard = self._runs[run, 0]
        place = wanted - (self._ends[run] - self._runs[run, 2]) + self._runs[run, 1]
        out = np.empty((len(wanted), self.dim), np.float32)
        order = np.lexsort((place, shard))  # shard by shard, and forwards in each: every page is touched once
        for group in np.split(order, np.flatnonzero(np.diff(shard[order])) + 1):
            if len(group):
                rows_of_shard = self._map(int(shard[group[0]]))
                out[group] = rows_of_shard[place[group]]
                release(rows_of_shard)
        return out

    def _row_numbers(self, rows: Any) -> npt.NDArray[np.int64]:
        if isinstance(rows, slice):
            return np.arange(*rows.indices(len(self)))
        wanted = np.asarray(rows)
        if wanted.size == 0:
            return np.zeros(0, np.int64)
        if wanted.dtype == bool and wanted.shape == (len(self),):
            return np.flatnonzero(wanted)
        if wanted.ndim != 1 or not np.issubdtype(wanted.dtype, np.integer):
            raise IndexError(
                f"Rows must be a slice, a list of numbers or a mask of {len(self)}, not {wanted.dtype} {wanted.shape}."
            )
        wanted = wanted.astype(np.int64)
        if wanted.min() < -len(self) or wanted.max() >= len(self):
            raise IndexError(
                f"Row {wanted.min() if wanted.min() < 0 else wanted.max()} is outside of {len(self)} rows."
            )
        return np.where(wanted < 0, wanted + len(self), wanted)

    def verify(self) -> None:
        """Read everything and raise a ``ValueError`` that says what is damaged, if anything is."""
        shards = np.unique(self._runs[:, 0]).tolist()
        found = [text for number in shards for text in damages(self.path, number, self.dim, self.manifest.dtype)]
        if not found:
            try:
                if len(set(self.ids)) != len(self):
                    found.append("an id has more than one row")
            except ValueError as error:
                found.append(str(error))
        if found:
            more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
            raise ValueError(
                f"The feature store {str(self.path)!r} is damaged: {found[0]}{more}; delete the .json of that shard "
                "and run the same embed command again."
            )

    def write_errors_csv(self, path: str | os.PathLike[str]) -> None:
        """Write the images that gave no row, with the reason, as a CSV with the columns path and reason."""
        text = io.StringIO(newline="")
        csv.writer(text).writerows([("path", "reason"), *self.errors])
        # bytes of a name that are no UTF-8 are shown as \udc.. so that every program can read the table
        write_text(path, text.getvalue().encode("utf-8", "backslashreplace").decode())

    def close(self) -> None:
        """Let go of the open files; reading again opens them again."""
        self._map.cache_clear()

    def __enter__(self) -> FeatureStore:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        return FeatureStore, (self.path, self.manifest)  # other processes open their own maps


def prepare(path: Path, manifest: Manifest, *, must_be_new: bool = False) -> Manifest:
    """Make the folder of a store, or return the manifest of the one that is there and was made in the same way."""
    if manifest.dtype not in DTYPES:
        raise ValueError(f"dtype must be {' or '.join(DTYPES)}, but is {manifest.dtype!r}.")
    if manifest.shard_size < 1:
        raise ValueError(f"shard_size must be at least 1, but is {manifest.shard_size}.")
    if path.exists() and not path.is_dir():
        raise ValueError(f"{str(path)!r} is a file: give a new folder for the feature store.")
    if not (path / "manifest.json").exists():
        if path.exists() and any(not name.startswith(".") for name in os.listdir(path)):
            raise ValueError(f"{str(path)!r} holds other things than a feature store: give a new or empty folder.")
        path.mkdir(parents=True, exist_ok=True)
        manifest.write(path)
        return manifest
    if must_be_new:
        raise ValueError(f"There is a feature store in {str(path)!r} already: give a new folder, or delete it.")
    there = Manifest.read(path)
    if _identity(there) != _identity(manifest):
        raise ValueError(
            f"The feature store {str(path)!r} was made with {_describe(there)}, but now it is {_describe(manifest)}: "
            "give another folder, or delete this one."
        )
    return there


def _identity(manifest: Manifest) -> list[str | int]:
    return [manifest.fingerprint, manifest.preprocessing, manifest.dim, manifest.dtype]


def _describe(manifest: Manifest) -> str:
    return (
        f"the encoder {manifest.encoder} (fingerprint {manifest.fingerprint}, "
        f"{manifest.preprocessing or 'no decoding'}, {manifest.dim} wide, {manifest.dtype})"
    )


def _max_maps() -> int:
    try:
        import resource
    except ImportError:  # Windows
        return 128
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return 512 if limit == resource.RLIM_INFINITY else max(8, min(512, limit // 4))
