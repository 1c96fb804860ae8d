"""The IDX format of MNIST: a header of big-endian integers, then the bytes of an array."""

from __future__ import annotations

import gzip
import math
import os
import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray


def read_idx(path: str | os.PathLike[str], ndim: int) -> NDArray[np.uint8]:
    """Read an array of bytes with ``ndim`` axes from an IDX file, plain or gzipped.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "labels-idx1-ubyte"
    >>> _ = file.write_bytes(bytes([0, 0, 8, 1]) + bytes([0, 0, 0, 3]) + bytes([7, 2, 1]))
    >>> read_idx(file, 1)
    array([7, 2, 1], dtype=uint8)
    """
    data = Path(path).read_bytes()
    if data[:2] == b"\x1f\x8b":
        try:
            data = gzip.decompress(data)
        except (OSError, EOFError, zlib.error) as error:
            raise ValueError(f"'{path}' is a damaged gzip file ({error}): download it again.") from None
    header = 4 + 4 * ndim
    if data[:4] != bytes([0, 0, 8, ndim]) or len(data) < header:
        raise ValueError(f"'{path}' is not an IDX file of bytes with {ndim} axes: download the official file again.")
    shape = tuple(int(size) for size in np.frombuffer(data, ">u4", ndim, 4))
    if len(data) - header != math.prod(shape):
        raise ValueError(
            f"'{path}' declares an array of shape {shape} but contains {len(data) - header:,} bytes: download it again."
        )
    return np.frombuffer(data, np.uint8, offset=header).reshape(shape)
