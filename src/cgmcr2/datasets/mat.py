"""Read arrays from MATLAB files, also inside tar archives."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any, cast

from cgmcr2.datasets.files import read_files


def read_mat(path: Path, name: str, *keys: str) -> list[Any]:
    """Return the arrays ``keys`` of the MATLAB file ``name``, without axes of length one.

    ``path`` is the file itself, its folder, or a tar archive that contains it.

    >>> import tempfile
    >>> from scipy.io import savemat
    >>> file = Path(tempfile.mkdtemp()) / "imagelabels.mat"
    >>> savemat(file, {"labels": [[77, 1]]})
    >>> read_mat(file, "imagelabels.mat", "labels")[0].tolist()
    [77, 1]
    """
    from scipy.io import loadmat  # slow to import, and most data sets do not need it

    data = read_files(path, [name])[name]
    try:
        content = loadmat(cast(Any, io.BytesIO(data)), squeeze_me=True)  # the type stubs accept only paths
        return [content[key] for key in keys]
    except Exception as error:  # scipy raises many types for a damaged file
        raise ValueError(
            f"{name!r} in '{path}' cannot be read as a MATLAB file with {', '.join(keys)} "
            f"({type(error).__name__}: {error}): download the official file again."
        ) from None
