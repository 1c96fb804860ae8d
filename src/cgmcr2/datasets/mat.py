"""Matlab files, and single files out of small archives."""

from __future__ import annotations

import io
import tarfile
import zlib
from pathlib import Path
from typing import Any, cast

from scipy.io import loadmat


def read_member(place: Path, name: str) -> bytes:
    """The file that ends with ``name`` below a folder, in a tar (plain or compressed), or ``place`` itself."""
    if place.is_dir():
        if not (place / name).is_file():
            raise ValueError(f"'{place}' holds no {name!r}: get the official file again.")
        return (place / name).read_bytes()
    if place.name == Path(name).name:
        return place.read_bytes()
    try:
        with tarfile.open(place) as archive:
            for member in archive:
                if f"/{member.name}".endswith(f"/{name}") and (file := archive.extractfile(member)):
                    return file.read()
    except (tarfile.TarError, EOFError, zlib.error) as error:
        raise ValueError(f"'{place}' cannot be read as a tar archive ({error}): get it again.") from None
    raise ValueError(f"'{place}' holds no {name!r}: get the official file again.")


def read_mat(place: Path, name: str, *keys: str) -> list[Any]:
    """The arrays called ``keys`` in the Matlab file ``name`` in ``place``, without their axes of length one.

    >>> import tempfile
    >>> from scipy.io import savemat
    >>> file = Path(tempfile.mkdtemp()) / "imagelabels.mat"
    >>> savemat(file, {"labels": [[77, 1]]})
    >>> read_mat(file, "imagelabels.mat", "labels")[0].tolist()
    [77, 1]
    """
    data = read_member(place, name)
    try:
        content = loadmat(cast(Any, io.BytesIO(data)), squeeze_me=True)  # the stubs know paths only
        return [content[key] for key in keys]
    except Exception as error:  # scipy raises many kinds for a broken file
        raise ValueError(
            f"{name!r} in '{place}' cannot be read as a Matlab file with {', '.join(keys)} "
            f"({type(error).__name__}: {error}): get the official file again."
        ) from None
