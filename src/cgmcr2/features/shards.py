"""Shard of a feature store: ``shard-00042.npy`` contains rows, ``shard-00042.json`` their ids and checksums.

The .json is written last and marks the shard as complete; a .npy without it is written again.
"""

from __future__ import annotations

import os
import re
import zlib
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from cgmcr2._checksums import DamagedFileError, digest
from cgmcr2._files import replacing
from cgmcr2.features.npy import map_npy
from cgmcr2.features.sealed import ADVICE, read_sealed, write_sealed

FORMAT = 1

T = TypeVar("T")


@dataclass(frozen=True)
class RowsDigest:
    """Size and digest of the .npy of a shard, which are read from its index without the ids."""

    bytes: int
    xxh3: str


@dataclass
class ShardIndex:
    """Content of a shard; sizes and stamps reveal whether the image of an id has changed since."""

    ids: list[str] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    stamps: list[int] = field(default_factory=list)
    checksums: list[int] = field(default_factory=list)  # CRC-32 of each row
    errors: list[tuple[str, int, int, str]] = field(default_factory=list)  # id, size, stamp, reason
    identity: list[str | int] = field(default_factory=list)  # that of the manifest
    bytes: int = 0  # size of the .npy
    xxh3: str = ""  # digest of the .npy
    format: int = FORMAT


def shard_paths(store: Path, number: int) -> tuple[Path, Path]:
    """Return the paths of the .npy and the .json of a shard.

    >>> [path.name for path in shard_paths(Path("store"), 42)]
    ['shard-00042.npy', 'shard-00042.json']
    """
    return store / f"shard-{number:05d}.npy", store / f"shard-{number:05d}.json"


def shard_numbers(store: Path) -> list[int]:
    """Return the numbers of the complete shards in ascending order."""
    names = (re.fullmatch(r"shard-(\d{5,18})\.json", name) for name in os.listdir(store))
    return sorted({int(name[1]) for name in names if name})


def write_shard(store: Path, number: int, rows: npt.NDArray[np.floating[Any]], index: ShardIndex) -> None:
    """Write ``rows`` of shape (m, D) and ``index``, whose checksums are computed here, atomically."""
    index.checksums = [zlib.crc32(row.tobytes()) for row in rows]
    npy, json_path = shard_paths(store, number)
    with replacing(npy) as temporary:
        with temporary.open("wb") as file:
            np.save(file, rows, allow_pickle=False)
        index.bytes, index.xxh3 = temporary.stat().st_size, digest(temporary)
    write_sealed(json_path, asdict(index))


def read_index(store: Path, number: int) -> ShardIndex:
    """Read the index of a shard; raise ``DamagedFileError`` if it is missing or damaged."""
    path = shard_paths(store, number)[1]
    index = _read(store, number, ShardIndex)
    if not len(index.ids) == len(index.sizes) == len(index.stamps) == len(index.checksums):
        raise DamagedFileError(f"{path} is damaged (its lists have different lengths); {ADVICE}.")
    return index


def _read(store: Path, number: int, type: type[T]) -> T:
    path = shard_paths(store, number)[1]
    try:
        return read_sealed(path, type, format=FORMAT)
    except FileNotFoundError:
        raise DamagedFileError(f"{path} is missing; {ADVICE}.") from None


_verified: set[tuple[int | str, ...]] = set()  # file versions that this process has verified


def verify_rows(store: Path, number: int, index: ShardIndex | RowsDigest) -> None:
    """Raise ``DamagedFileError`` if the .npy of a shard differs from what was written.

    A file is read once per process, and again only after it has changed.
    """
    path = shard_paths(store, number)[0]
    try:
        status = path.stat()
        times = (status.st_mtime_ns, status.st_ctime_ns)
        key = (status.st_dev, status.st_ino, status.st_size, *times, index.xxh3)
        if key in _verified:
            return
        if status.st_size != index.bytes or digest(path) != index.xxh3:
            raise DamagedFileError(f"{path} is damaged (its checksum differs); {ADVICE}.")
    except FileNotFoundError:
        raise DamagedFileError(f"{path} is missing; {ADVICE}.") from None
    _verified.add(key)


def map_rows(store: Path, number: int, dim: int, dtype: str) -> npt.NDArray[np.floating[Any]]:
    """Verify a shard and return its memory-mapped rows, shape (m, dim)."""
    verify_rows(store, number, _read(store, number, RowsDigest))
    return _map(shard_paths(store, number)[0], dim, dtype)


def _map(path: Path, dim: int, dtype: str) -> npt.NDArray[np.floating[Any]]:
    try:
        rows = map_npy(path)
    except (OSError, ValueError) as error:
        raise DamagedFileError(f"{path} is damaged ({error}); {ADVICE}.") from None
    if rows.ndim != 2 or rows.shape[1] != dim or rows.dtype != np.dtype(dtype):
        raise DamagedFileError(
            f"{path} is damaged ({rows.dtype} of shape {rows.shape}, not {dtype} with {dim} columns); {ADVICE}."
        )
    return rows


def find_damage(store: Path, number: int, dim: int, dtype: str) -> list[str]:
    """Read a whole shard, and return a description of each damage."""
    path = shard_paths(store, number)[0]
    try:
        index = read_index(store, number)
        rows = _map(path, dim, dtype)
        if len(rows) != len(index.ids):
            return [f"{path} has {len(rows)} rows, but its index {len(index.ids)} ids"]
        damage = []
        for row, (values, checksum) in enumerate(zip(rows, index.checksums, strict=True)):
            if zlib.crc32(values.tobytes()) != checksum:
                damage.append(f"row {row} of {path.name} ({index.ids[row]!r}) does not match its checksum")
            elif not np.isfinite(values).all():
                damage.append(f"row {row} of {path.name} ({index.ids[row]!r}) is not finite")
        if not damage:
            verify_rows(store, number, index)
    except ValueError as error:
        return [str(error).removesuffix(f"; {ADVICE}.")]
    return damage
