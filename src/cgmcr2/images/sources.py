"""Read the bytes of an image from a file, a zip, a tar or an npz array.

Sources are thread-safe. A ``sequential`` source is a compressed stream, which is fast only if it is read in catalog
order: read it in one thread.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import math
import os
import stat
import threading
import zipfile
from array import array
from collections.abc import Callable
from dataclasses import dataclass
from typing import IO, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from cgmcr2.images.limits import check_file_size

ImageData = IO[bytes] | NDArray[np.uint8]
"""One image as a file of encoded bytes, or as pixels of shape (H, W) or (H, W, C)."""


class Source(Protocol):
    """Loads the image with a given index and id."""

    sequential: bool

    def load(self, index: int, id: str) -> ImageData: ...


@dataclass
class FileSource:
    """Images in files; the id is a path, absolute or relative to ``base``."""

    base: str
    sequential: bool = False

    def load(self, index: int, id: str) -> IO[bytes]:
        # O_NONBLOCK: opening a FIFO that replaced a photo after listing must not block
        flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
        handle = os.open(os.path.join(self.base, id), flags)
        try:
            status = os.fstat(handle)
            if problem := file_type_problem(status.st_mode):
                raise ValueError(problem)
            check_file_size(status.st_size)
            return os.fdopen(handle, "rb")
        except BaseException:
            os.close(handle)
            raise


class _Archive:
    """File opened at first use, shared by threads under a lock, and reopened by other processes."""

    sequential: bool = False

    def __init__(self, path: str) -> None:
        self.path = path
        self._version = _file_version(path)
        self._lock = threading.Lock()
        self._handle: Any = None

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in ("_lock", "_handle")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lock = threading.Lock()
        self._handle = None

    def _check_version(self) -> None:
        """Raise ``ValueError`` if the archive has changed, because its members may have moved."""
        if _file_version(self.path) != self._version:
            raise ValueError("the archive has changed since it was listed")

    def __del__(self) -> None:
        if (handle := self.__dict__.get("_handle")) is not None:
            handle.close()


class ZipSource(_Archive):
    """Members of a zip; ``members`` holds their indices in the archive's directory, in catalog order."""

    def __init__(self, path: str, members: array[int]) -> None:
        super().__init__(path)
        self.members = members

    def load(self, index: int, id: str) -> IO[bytes]:
        with self._lock:
            self._check_version()
            if self._handle is None:
                self._handle = zipfile.ZipFile(self.path)
            info = self._handle.infolist()[self.members[index]]
            with self._handle.open(info) as member:
                # a limit for the decompressor, which would otherwise expand a member beyond its declared size
                data = member.read(info.file_size)
                if len(data) < info.file_size or member.read(1):  # reading to the end verifies the checksum
                    raise ValueError("the archive ends before the end of this image")
            return io.BytesIO(data)


def open_stream(path: str, compression: str) -> IO[bytes]:
    """Open a file that is plain (``""``) or compressed with gz, bz2 or xz, and return the uncompressed stream."""
    openers: dict[str, Callable[[str, str], Any]] = {"": open, "gz": gzip.open, "bz2": bz2.open, "xz": lzma.open}
    stream: IO[bytes] = openers[compression](path, "rb")
    return stream


class TarSource(_Archive):
    """Members of a tar, read at their offsets in the uncompressed stream."""

    def __init__(self, path: str, compression: str, offsets: array[int], sizes: array[int]) -> None:
        super().__init__(path)
        self.compression, self.offsets, self.sizes = compression, offsets, sizes
        self.sequential = bool(compression)

    def load(self, index: int, id: str) -> IO[bytes]:
        with self._lock:
            self._check_version()
            if self._handle is None:
                self._handle = open_stream(self.path, self.compression)
            return io.BytesIO(_read(self._handle, self.offsets[index], self.sizes[index]))


@dataclass
class NpzMember:
    """Array in an npz: byte offset of the first row, number of rows, shape (H, W) or (H, W, C) of one row."""

    name: str
    start: int
    rows: int
    shape: tuple[int, ...]


class NpzSource(_Archive):
    """Rows of an array in an npz, read one at a time without loading the array."""

    sequential = True

    def __init__(self, path: str, member: NpzMember) -> None:
        super().__init__(path)
        self.member = member

    def load(self, index: int, id: str) -> NDArray[np.uint8]:
        length = math.prod(self.member.shape)
        with self._lock:
            self._check_version()
            if self._handle is None:
                archive = zipfile.ZipFile(self.path)
                self._handle = archive.open(self.member.name)
            data = _read(self._handle, self.member.start + index * length, length)
        return np.frombuffer(data, np.uint8).reshape(self.member.shape)


def _file_version(path: str) -> tuple[int, int]:
    status = os.stat(path)
    return status.st_size, status.st_mtime_ns


def _read(file: IO[bytes], offset: int, length: int) -> bytes:
    file.seek(offset)  # in a compressed stream, seeking backwards starts again at the beginning
    data = file.read(length)
    if len(data) < length:
        raise ValueError("the archive ends before the end of this image")
    return data


def file_type_problem(mode: int) -> str | None:
    """Return why a file with this ``st_mode`` cannot be an image, or None for a regular file.

    >>> file_type_problem(stat.S_IFIFO)
    'a FIFO, not a file'
    """
    if stat.S_ISREG(mode):
        return None
    kinds: tuple[tuple[Callable[[int], bool], str], ...] = (
        (stat.S_ISDIR, "a folder"),
        (stat.S_ISFIFO, "a FIFO"),
        (stat.S_ISSOCK, "a socket"),
        (stat.S_ISLNK, "a link"),
    )
    return next((name for test, name in kinds if test(mode)), "a device") + ", not a file"
