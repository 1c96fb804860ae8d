"""Shard of a feature store: ``shard-00042.npy`` contains rows, ``shard-00042.json`` their ids and checksums.

The .json is written last and marks the shard as complete; a .npy without it is written again.
"""

from __future__ import annotations

import json
import os
import re
import zlib
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from cgmcr2._files import replacing, write_text


@dataclass
class ShardIndex:
    """Content of a shard; sizes and stamps reveal whether the image of an id has changed since."""

    ids: list[str] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    stamps: list[int] = field(default_factory=list)
    checksums: list[int] = field(default_factory=list)  # CRC-32 of each row
    errors: list[tuple[str, int, int, str]] = field(default_factory=list)  # id, size, stamp, reason
    bytes: int = 0  # size of the .npy


def shard_paths(store: Path, number: int) -> tuple[Path, Path]:
    """Return the paths of the .npy and the .json of a shard.

    >>> [path.name for path in shard_paths(Path("store"), 42)]
    ['shard-00042.npy', 'shard-00042.json']
    """
    return store / f"shard-{number:05d}.npy", store / f"shard-{number:05d}.json"


def shard_numbers(store: Path) -> list[int]:
    """Return the numbers of the complete shards in ascending order."""
    names = (re.fullmatch(r"shard-(\d{5,})\.json", name) for name in os.listdir(store))
    return sorted(int(name[1]) for name in names if name)


def write_shard(store: Path, number: int, rows: npt.NDArray[np.floating[Any]], index: ShardIndex) -> None:
    """Write ``rows`` of shape (m, D) and ``index``, whose checksums are computed here, atomically."""
    index.checksums = [zlib.crc32(row.tobytes()) for row in rows]
    npy, json_path = shard_paths(store, number)
    with replacing(npy) as temporary:
        with temporary.open("wb") as file:
            np.save(file, rows)
        index.bytes = temporary.stat().st_size
    content = asdict(index)
    # ASCII: file names that are not UTF-8 contain lone surrogates, which only survive as \\udc.. escapes
    write_text(json_path, json.dumps({"checksum": _checksum(content), **content}) + "\n")


def read_index(store: Path, number: int) -> ShardIndex:
    """Read the index of a shard; raise ``ValueError`` if it is damaged or its rows are missing."""
    npy, json_path = shard_paths(store, number)
    try:
        content = json.loads(json_path.read_text(encoding="utf-8"))
        checksum = content.pop("checksum")
        index = ShardIndex(**content)
        index.errors = [(str(id), int(size), int(stamp), str(reason)) for id, size, stamp, reason in index.errors]
        if checksum != _checksum(content):
            raise ValueError("it does not match its checksum")
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"{json_path} cannot be read: {error}") from None
    if not npy.is_file() or npy.stat().st_size != index.bytes:
        raise ValueError(f"{npy} is missing or incomplete")
    return index


def map_rows(store: Path, number: int) -> npt.NDArray[np.floating[Any]]:
    """Return the memory-mapped rows of a shard, shape (m, D)."""
    rows: npt.NDArray[np.floating[Any]] = np.load(shard_paths(store, number)[0], mmap_mode="r", allow_pickle=False)
    return rows


def find_damage(store: Path, number: int, dim: int, dtype: str) -> list[str]:
    """Read a whole shard, and return a description of each damage."""
    try:
        index = read_index(store, number)
        if not index.ids:
            return []
        rows = map_rows(store, number)
    except Exception as error:  # a damaged .npy header raises nearly any type
        return [f"shard {number}: {error}"]
    name = shard_paths(store, number)[0].name
    if rows.shape != (len(index.ids), dim) or rows.dtype != np.dtype(dtype):
        return [f"{name} is {rows.dtype} of shape {rows.shape}, not {dtype} of shape {(len(index.ids), dim)}"]
    damage = []
    for row, (values, checksum) in enumerate(zip(rows, index.checksums, strict=True)):
        if zlib.crc32(values.tobytes()) != checksum:
            damage.append(f"row {row} of {name} ({index.ids[row]!r}) does not match its checksum")
        elif not np.isfinite(values).all():
            damage.append(f"row {row} of {name} ({index.ids[row]!r}) is not finite")
    return damage


def _checksum(content: dict[str, Any]) -> int:
    return zlib.crc32(json.dumps(content, sort_keys=True).encode())
