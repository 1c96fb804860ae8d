"""Where the bytes of an image come from: plain files, a zip, a tar, or one npz array.

A source is safe to use from several threads. ``sequential`` says that it is a compressed stream, which is fast only
when read in the order of the catalog; whoever reads many images from it should fetch the bytes in one thread.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
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

Loaded = IO[bytes] | NDArray[np.uint8]
"""What a source gives for one image: its encoded bytes as a file, or its pixels."""

MAX_MEMBER_BYTES = 256 * 2**20  # one archived image is held in memory while it is decoded


class Source(Protocol):
    """Gives the bytes (or pixels) of the image at a place of the catalog."""

    sequential: bool

    def load(self, index: int, id: str) -> Loaded: ...


@dataclass
class FileSource:
    """Images that are files of their own: ``id`` is a path, relative to ``base`` or absolute."""

    base: str
    sequential: bool = False

    def load(self, index: int, id: str) -> IO[bytes]:
        # O_NONBLOCK: a FIFO that took the place of a photo after it was listed must not block the run
        flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
        handle = os.open(os.path.join(self.base, id), flags)
        try:
            if problem := what_is_wrong(os.fstat(handle).st_mode):
                raise ValueError(problem)
            return os.fdopen(handle, "rb")
        except BaseException:
            os.close(handle)
            raise


class _Shared:
    """A file that is opened at the first use, shared by threads under a lock, and not carried to other processes."""

    sequential: bool = False

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._handle: Any = None

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in ("_lock", "_handle")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        _Shared.__init__(self)

    def __del__(self) -> None:
        if (handle := self.__dict__.get("_handle")) is not None:
            handle.close()


class ZipSource(_Shared):
    """The members of a zip; ``members`` are their places in the archive's directory, in catalog order."""

    def __init__(self, path: str, members: array[int]) -> None:
        super().__init__()
        self.path, self.members = path, members

    def load(self, index: int, id: str) -> IO[bytes]:
        with self._lock:
            if self._handle is None:
                self._handle = zipfile.ZipFile(self.path)
            return io.BytesIO(self._handle.read(self._handle.infolist()[self.members[index]]))


def open_stream(path: str, compression: str) -> IO[bytes]:
    """The uncompressed bytes of a file that is plain (``""``) or compressed with gz, bz2 or xz."""
    openers: dict[str, Callable[[str, str], Any]] = {"": open, "gz": gzip.open, "bz2": bz2.open, "xz": lzma.open}
    stream: IO[bytes] = openers[compression](path, "rb")
    return stream


class TarSource(_Shared):
    """The members of a tar, found by their offsets in the (uncompressed) stream."""

    def __init__(self, path: str, compression: str, offsets: array[int], sizes: array[int]) -> None:
        super().__init__()
        self.path, self.compression, self.offsets, self.sizes = path, compression, offsets, sizes
        self.sequential = bool(compression)

    def load(self, index: int, id: str) -> IO[bytes]:
        with self._lock:
            if self._handle is None:
                self._handle = open_stream(self.path, self.compression)
            return io.BytesIO(_read(self._handle, self.offsets[index], self.sizes[index]))


@dataclass
class NpzMember:
    """The array ``images`` in an npz: where its rows start, their number, and the shape ``(H, W)`` or ``(H, W, C)``."""

    name: str
    start: int
    rows: int
    shape: tuple[int, ...]


class NpzSource(_Shared):
    """The rows of one array in an npz, read one at a time: the array is never in memory whole."""

    sequential = True

    def __init__(self, path: str, member: NpzMember) -> None:
        super().__init__()
        self.path, self.member = path, member

    def load(self, index: int, id: str) -> NDArray[np.uint8]:
        length = int(np.prod(self.member.shape))
        with self._lock:
            if self._handle is None:
                archive = zipfile.ZipFile(self.path)
                self._handle = archive.open(self.member.name)
            data = _read(self._handle, self.member.start + index * length, length)
        return np.frombuffer(data, np.uint8).reshape(self.member.shape)


def _read(file: IO[bytes], offset: int, length: int) -> bytes:
    file.seek(offset)  # in a compressed stream: forwards it reads on, backwards it starts again
    data = file.read(length)
    if len(data) < length:
        raise ValueError("the archive ends before the end of this image")
    return data


def what_is_wrong(mode: int) -> str | None:
    """Why something with this ``st_mode`` is not to be opened as an image, or None for a regular file.

    >>> what_is_wrong(stat.S_IFIFO)
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
