"""One shard of a feature store: ``shard-00042.npy`` (the rows) and ``shard-00042.json`` (whose rows they are).

The rows are renamed into place first, the json second: it is the mark that the shard is done. Killed in between, the
rows alone count for nothing and are written again. Each row has a checksum, and so has the json.
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
    """What the rows of a shard are; ``size`` and ``stamp`` tell whether the file behind an id has changed since."""

    ids: list[str] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    stamps: list[int] = field(default_factory=list)
    checksums: list[int] = field(default_factory=list)  # CRC-32 of each row
    errors: list[tuple[str, int, int, str]] = field(default_factory=list)  # id, size, stamp, reason
    bytes: int = 0  # of the .npy


def shard_paths(store: Path, number: int) -> tuple[Path, Path]:
    """The .npy and the .json of a shard.

    >>> [path.name for path in shard_paths(Path("store"), 42)]
    ['shard-00042.npy', 'shard-00042.json']
    """
    return store / f"shard-{number:05d}.npy", store / f"shard-{number:05d}.json"


def shard_numbers(store: Path) -> list[int]:
    """The numbers of the shards that are done, in order."""
    names = (re.fullmatch(r"shard-(\d{5,})\.json", name) for name in os.listdir(store))
    return sorted(int(name[1]) for name in names if name)


def write_shard(store: Path, number: int, rows: npt.NDArray[np.floating[Any]], index: ShardIndex) -> None:
    """Write ``rows (m, D)`` and ``index`` (its checksums are filled in here), whole or not at all."""
    index.checksums = [zlib.crc32(row.tobytes()) for row in rows]
    npy, mark = shard_paths(store, number)
    with replacing(npy) as temporary:
        with temporary.open("wb") as file:
            np.save(file, rows)
        index.bytes = temporary.stat().st_size
    content = asdict(index)
    # plain ASCII: file names that are not UTF-8 come as lone surrogates, which only survive as \\udc.. escapes
    write_text(mark, json.dumps({"checksum": _checksum(content), **content}) + "\n")


def read_index(store: Path, number: int) -> ShardIndex:
    """What a shard holds; a ``ValueError`` says that it is damaged or that its rows are missing."""
    npy, mark = shard_paths(store, number)
    try:
        content = json.loads(mark.read_text(encoding="utf-8"))
        checksum = content.pop("checksum")
        index = ShardIndex(**content)
        index.errors = [(str(id), int(size), int(stamp), str(reason)) for id, size, stamp, reason in index.errors]
        if checksum != _checksum(content):
            raise ValueError("it does not match its checksum")
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"{mark} cannot be read: {error}") from None
    if not npy.is_file() or npy.stat().st_size != index.bytes:
        raise ValueError(f"{npy} is missing or not whole")
    return index


def map_rows(store: Path, number: int) -> npt.NDArray[np.floating[Any]]:
    """The rows ``(m, D)`` of a shard, memory-mapped."""
    rows: npt.NDArray[np.floating[Any]] = np.load(shard_paths(store, number)[0], mmap_mode="r", allow_pickle=False)
    return rows


def damages(store: Path, number: int, dim: int, dtype: str) -> list[str]:
    """All that is wrong with a shard, after reading every byte of it."""
    try:
        index = read_index(store, number)
        if not index.ids:
            return []
        rows = map_rows(store, number)
    except Exception as error:  # a damaged header of a .npy raises nearly anything
        return [f"shard {number}: {error}"]
    name = shard_paths(store, number)[0].name
    if rows.shape != (len(index.ids), dim) or rows.dtype != np.dtype(dtype):
        return [f"{name} is {rows.dtype} of shape {rows.shape}, not {dtype} of shape {(len(index.ids), dim)}"]
    found = []
    for number_of_row, (row, checksum) in enumerate(zip(rows, index.checksums, strict=True)):
        if zlib.crc32(row.tobytes()) != checksum:
            found.append(f"row {number_of_row} of {name} ({index.ids[number_of_row]!r}) does not match its checksum")
        elif not np.isfinite(row).all():
            found.append(f"row {number_of_row} of {name} ({index.ids[number_of_row]!r}) is not finite")
    return found


def _checksum(content: dict[str, Any]) -> int:
    return zlib.crc32(json.dumps(content, sort_keys=True).encode())
