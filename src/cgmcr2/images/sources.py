"""Read the bytes of an image from a file, an object at a URL, a zip, a tar or an npz array.

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
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import IO, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from cgmcr2.images.limits import MAX_MEMBER_BYTES, check_file_size
from cgmcr2.images.storage import FileInfo, Retry, file_info, is_url, open_file, read_object, read_range

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


@dataclass
class ObjectSource:
    """Objects at URLs: ``base`` and the id, or ``urls`` in catalog order; the size of an object is -1 if unknown."""

    sizes: array[int]
    base: str = ""
    urls: list[str] | None = None
    retry: Retry = field(default_factory=Retry)
    sequential: bool = False
    remote: bool = True

    def load(self, index: int, id: str) -> IO[bytes]:
        url = self.urls[index] if self.urls is not None else f"{self.base}/{id}"
        if not is_url(url):  # in a list that also names local files
            return FileSource("").load(index, url)
        size = self.sizes[index]
        check_file_size(size, MAX_MEMBER_BYTES)
        return io.BytesIO(read_object(url, retry=self.retry) if size < 0 else read_range(url, 0, size, self.retry))


class ConcatenatedSource:
    """Several sources in a row, such as the shards of a data set; ``lengths`` are their numbers of images."""

    def __init__(self, sources: Sequence[Source], lengths: Sequence[int]) -> None:
        self.sources = list(sources)
        self.starts = array("q", np.cumsum([0, *lengths])[:-1].tolist())
        self.sequential = any(source.sequential for source in sources)
        self.remote = any(is_remote(source) for source in sources)
        self._current = 0

    def load(self, index: int, id: str) -> ImageData:
        number = bisect_right(self.starts, index) - 1
        previous, self._current = self._current, number
        if number != previous and isinstance(archive := self.sources[previous], ArchiveSource):
            archive.close()  # thousands of shards would exceed the limit of open files
        return self.sources[number].load(index - self.starts[number], id)


def is_remote(source: Source) -> bool:
    """Return whether a source spends most of its time waiting for a server."""
    return getattr(source, "remote", False)


class ArchiveSource:
    """File opened at first use, shared by threads under a lock, and reopened by other processes."""

    sequential: bool = False

    def __init__(self, file: FileInfo) -> None:
        self.file = file
        self.remote = is_url(file.path)
        self._lock = threading.Lock()
        self._handle: Any = None

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in ("_lock", "_handle")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lock = threading.Lock()
        self._handle = None

    def load(self, index: int, id: str) -> ImageData:
        """Return the image with this index."""
        raise NotImplementedError

    def _check_version(self) -> None:
        """Raise ``ValueError`` if a local archive has changed, because its members may have moved."""
        if not self.remote and file_info(self.file.path) != self.file:
            raise ValueError("the archive has changed since it was listed")

    def close(self) -> None:
        """Close the file; the next image opens it again."""
        with self._lock:
            handle, self._handle = self._handle, None
            if handle is not None:
                handle.close()

    def __del__(self) -> None:
        if "_handle" in self.__dict__:
            self.close()


class ZipSource(ArchiveSource):
    """Members of a zip; ``members`` holds their indices in the archive's directory, in catalog order."""

    def __init__(self, file: FileInfo, members: array[int]) -> None:
        super().__init__(file)
        self.members = members

    def load(self, index: int, id: str) -> IO[bytes]:
        with self._lock:
            self._check_version()
            if self._handle is None:
                self._handle = zipfile.ZipFile(open_file(self.file))
            info = self._handle.infolist()[self.members[index]]
            with self._handle.open(info) as member:
                # a limit for the decompressor, which would otherwise expand a member beyond its declared size
                data = member.read(info.file_size)
                if len(data) < info.file_size or member.read(1):  # reading to the end verifies the checksum
                    raise ValueError("the archive ends before the end of this image")
            return io.BytesIO(data)


def open_stream(file: FileInfo, compression: str) -> IO[bytes]:
    """Open a file that is plain (``""``) or compressed with gz, bz2 or xz, and return the uncompressed stream."""
    openers: dict[str, Callable[[IO[bytes]], Any]] = {"gz": gzip.open, "bz2": bz2.open, "xz": lzma.open}
    opened = open_file(file)
    return openers[compression](opened) if compression else opened


class TarSource(ArchiveSource):
    """Members of a tar, read at their offsets in the uncompressed stream."""

    def __init__(self, file: FileInfo, compression: str, offsets: array[int], sizes: array[int]) -> None:
        super().__init__(file)
        self.compression, self.offsets, self.sizes = compression, offsets, sizes
        self.sequential = bool(compression)

    def load(self, index: int, id: str) -> IO[bytes]:
        self._check_version()
        offset, size = self.offsets[index], self.sizes[index]
        if not self.compression:
            return io.BytesIO(_complete(read_range(self.file.path, offset, size), size))
        with self._lock:
            if self._handle is None:
                self._handle = open_stream(self.file, self.compression)
            return io.BytesIO(_read(self._handle, offset, size))


@dataclass
class NpzMember:
    """Array in an npz: byte offset of the first row, number of rows, shape (H, W) or (H, W, C) of one row."""

    name: str
    start: int
    rows: int
    shape: tuple[int, ...]


class NpzSource(ArchiveSource):
    """Rows of an array in an npz, read one at a time without loading the array."""

    sequential = True

    def __init__(self, file: FileInfo, member: NpzMember) -> None:
        super().__init__(file)
        self.member = member

    def load(self, index: int, id: str) -> NDArray[np.uint8]:
        length = math.prod(self.member.shape)
        with self._lock:
            self._check_version()
            if self._handle is None:
                archive = zipfile.ZipFile(open_file(self.file))
                self._handle = archive.open(self.member.name)
            data = _read(self._handle, self.member.start + index * length, length)
        return np.frombuffer(data, np.uint8).reshape(self.member.shape)


def _read(file: IO[bytes], offset: int, length: int) -> bytes:
    file.seek(offset)  # in a compressed stream, seeking backwards starts again at the beginning
    return _complete(file.read(length), length)


def _complete(data: bytes, length: int) -> bytes:
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
