"""Checksums of the files in a folder: ``checksums.json`` lists the size and the xxHash of each.

It also makes the replacement of several files atomic: new files and their ``checksums.json`` are written to a subfolder
and then moved into place, and the next reader finishes a move that was interrupted.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import mmap
import os
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

import xxhash

from cgmcr2._files import read_json, write_text

FILE_NAME = "checksums.json"
STAGING = ".staged"  # subfolder of new files that are complete once it has its checksums.json
BLOCK_BYTES = 1 << 24  # bytes hashed at once


class DamagedFileError(ValueError):
    """A file differs from what was written."""


@dataclasses.dataclass(frozen=True)
class Checksum:
    """Size and digest of a file."""

    size: int
    xxh3: str


@dataclasses.dataclass
class Checksums:
    """The content of ``checksums.json``; ``checksum`` is that of ``files`` itself."""

    files: dict[str, Checksum]
    checksum: str
    format: int = 1


def digest(path: str | os.PathLike[str]) -> str:
    """The XXH3-128 digest of a file, as 32 hexadecimal digits.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "a"
    >>> _ = path.write_bytes(b"abc")
    >>> digest(path)
    '06b05ab6733a618578af5f94892f3950'
    """
    state = xxhash.xxh3_128()
    with open(path, "rb") as file:
        if os.fstat(file.fileno()).st_size:
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as view:
                for start in range(0, len(view), BLOCK_BYTES):
                    with memoryview(view) as whole, whole[start : start + BLOCK_BYTES] as block:
                        state.update(block)
                    if hasattr(mmap, "MADV_DONTNEED"):  # otherwise a large file would fill the memory of the process
                        view.madvise(mmap.MADV_DONTNEED)
    return state.hexdigest()


def read_checksums(folder: Path) -> dict[str, Checksum] | None:
    """The checksums of ``folder``, or None if it has none."""
    path = folder / FILE_NAME
    if not path.is_file():
        return None
    try:
        content = read_json(path, Checksums, format=1, advice=f"check the folder with: cgmcr2 doctor {folder}")
    except ValueError as error:
        raise DamagedFileError(str(error)) from None
    if content.checksum != _own_checksum(content.files):
        raise DamagedFileError(f"{path} is damaged; check the folder with: cgmcr2 doctor {folder}.")
    return content.files


def record_checksums(folder: Path, names: Iterable[str]) -> None:
    """Update the checksums of the files ``names`` in ``checksums.json``, without those that do not exist."""
    names = set(names)
    files = {name: value for name, value in (read_checksums(folder) or {}).items() if name not in names}
    _write(folder, files | {name: checksum(folder / name) for name in names if (folder / name).is_file()})


@contextlib.contextmanager
def replacing_files(folder: Path, names: Iterable[str] | None = None) -> Iterator[Path]:
    """Yield an empty folder; on success, its files replace the files ``names`` of ``folder``, all or none of them.

    By default, all files that have a checksum are replaced. Those without a new version are deleted.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> with replacing_files(folder) as staging:
    ...     _ = (staging / "a.txt").write_text("new")
    >>> (folder / "a.txt").read_text(), list(read_checksums(folder))
    ('new', ['a.txt'])
    """
    finish_replacement(folder)
    staging = folder / STAGING
    shutil.rmtree(staging, ignore_errors=True)
    staging.mkdir()
    try:
        yield staging
        old = read_checksums(folder) or {}
        files = {name: old[name] for name in old.keys() - (old.keys() if names is None else set(names))}
        new = (path for path in staging.rglob("*") if path.is_file())
        _write(staging, files | {path.relative_to(staging).as_posix(): checksum(path) for path in new})
    except BaseException:
        shutil.rmtree(staging, ignore_errors=True)
        raise
    finish_replacement(folder)


def has_replacement(folder: Path) -> bool:
    """Whether new files of ``folder`` are complete but not all moved into place, because the process was killed."""
    return (folder / STAGING / FILE_NAME).is_file()


def finish_replacement(folder: Path) -> None:
    """Move the files of a complete replacement into place; ``checksums.json`` comes last."""
    if not has_replacement(folder):
        return
    staging = folder / STAGING
    files = read_checksums(staging) or {}
    for name in (read_checksums(folder) or {}).keys() - files.keys():
        (folder / name).unlink(missing_ok=True)
    for name in files:
        if (staging / name).is_file():  # otherwise it is in place already
            (folder / name).parent.mkdir(exist_ok=True)
            os.replace(staging / name, folder / name)
    os.replace(staging / FILE_NAME, folder / FILE_NAME)
    shutil.rmtree(staging, ignore_errors=True)


def checksum(path: Path) -> Checksum:
    """The size and digest of a file."""
    return Checksum(path.stat().st_size, digest(path))


def verify_files(folder: Path, names: Iterable[str]) -> None:
    """Raise ``DamagedFileError`` if one of the files ``names`` differs from its checksum or has disappeared.

    Files without a checksum, and folders without ``checksums.json``, are not verified.
    """
    for name, problem in find_damage(folder, names).items():
        raise DamagedFileError(f"{folder / name} {problem}; check the folder with: cgmcr2 doctor {folder}.")


def find_damage(folder: Path, names: Iterable[str] | None = None) -> dict[str, str]:
    """What is wrong with each damaged file of ``names`` (default: all files that have a checksum)."""
    files = read_checksums(folder) or {}
    damage = {}
    for name in files if names is None else names:
        expected = files.get(name)
        if expected is None:
            continue
        path = folder / name
        if not path.is_file():
            damage[name] = "is missing"
        elif path.stat().st_size != expected.size or digest(path) != expected.xxh3:
            damage[name] = "is damaged (its checksum differs)"
    return damage


def _write(folder: Path, files: dict[str, Checksum]) -> None:
    files = dict(sorted(files.items()))
    content = Checksums(files, _own_checksum(files))
    write_text(folder / FILE_NAME, json.dumps(dataclasses.asdict(content), indent=1) + "\n")


def _own_checksum(files: dict[str, Checksum]) -> str:
    content = {name: dataclasses.asdict(value) for name, value in files.items()}
    return xxhash.xxh3_128(json.dumps(content, sort_keys=True).encode()).hexdigest()
