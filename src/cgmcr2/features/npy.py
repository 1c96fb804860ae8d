"""Headers of .npy files and members of .npz files, checked before memory is allocated; nothing is unpickled."""

from __future__ import annotations

import math
import os
import zipfile
from typing import IO, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from cgmcr2.images.limits import check_ratio


class NpyHeader(NamedTuple):
    """Shape and type of an array, and the offset of its first byte."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    fortran_order: bool
    offset: int

    @property
    def size(self) -> int:
        """Size of the file in bytes."""
        return self.offset + math.prod(self.shape) * self.dtype.itemsize


def read_npy_header(path: str | os.PathLike[str]) -> NpyHeader:
    """Read the header of a .npy file; raise ``ValueError`` if the size of the file is another one than it says."""
    with open(path, "rb") as file:
        header = _read_header(file)
        _check_size(header, os.fstat(file.fileno()).st_size)
    return header


def map_npy(path: str | os.PathLike[str]) -> npt.NDArray[Any]:
    """Return the memory-mapped array of a .npy file; an array without elements is not mapped.

    >>> import tempfile
    >>> from pathlib import Path
    >>> path = Path(tempfile.mkdtemp()) / "a.npy"
    >>> np.save(path, np.eye(2))
    >>> map_npy(path).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    header = read_npy_header(path)
    order = "F" if header.fortran_order else "C"
    if not math.prod(header.shape) * header.dtype.itemsize:
        return np.empty(header.shape, header.dtype)
    return np.memmap(path, header.dtype, "r", header.offset, header.shape, order=order)  # type: ignore[call-overload,no-any-return]


def npz_names(path: str | os.PathLike[str]) -> list[str]:
    """Return the names of the arrays in a .npz file."""
    with zipfile.ZipFile(path) as archive:
        return [name.removesuffix(".npy") for name in archive.namelist() if name.endswith(".npy")]


def read_npz(path: str | os.PathLike[str], names: list[str]) -> dict[str, npt.NDArray[Any]]:
    """Read the arrays ``names`` of a .npz file.

    Raises ``ValueError`` if an array is larger than its member in the archive, or a suspected decompression bomb.

    >>> import tempfile
    >>> from pathlib import Path
    >>> path = Path(tempfile.mkdtemp()) / "a.npz"
    >>> np.savez(path, x=[1, 2], y=[3])
    >>> read_npz(path, ["x"])["x"].tolist()
    [1, 2]
    """
    arrays = {}
    with zipfile.ZipFile(path) as archive:
        for name in names:
            info = archive.getinfo(f"{name}.npy")
            if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise ValueError(f"the array {name!r} is compressed with an unsupported method")
            check_ratio(f"the array {name!r}", info.file_size, info.compress_size)
            if info.compress_type == zipfile.ZIP_STORED and info.file_size > os.path.getsize(path):
                raise ValueError(f"the array {name!r} is larger than the file")
            with archive.open(info) as file:
                header = _read_header(file)
                _check_size(header, info.file_size)
            with archive.open(info) as file:
                arrays[name] = np.lib.format.read_array(file, allow_pickle=False)
                file.read(1)  # at the end of the member, zipfile compares its checksum
    return arrays


def _read_header(file: IO[bytes]) -> NpyHeader:
    readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    version = np.lib.format.read_magic(file)
    if version not in readers:
        raise ValueError(f"its version {version} of the .npy format is not supported")
    try:
        shape, fortran_order, dtype = readers[version](file)
    except Exception as error:  # the header is parsed as Python source, which can raise nearly any type
        raise ValueError(f"its header is invalid: {type(error).__name__}") from None
    if dtype.hasobject:
        raise ValueError("it contains Python objects, which are not loaded")
    if any(side < 0 for side in shape):
        raise ValueError(f"its header has the invalid shape {shape}")
    return NpyHeader(tuple(int(side) for side in shape), dtype, fortran_order, file.tell())


def _check_size(header: NpyHeader, size: int) -> None:
    if header.size != size:
        raise ValueError(
            f"it has {size:,} bytes, but an array of {header.dtype} and shape {header.shape} needs {header.size:,}"
        )
