"""Small files in the official formats of the data sets."""

from __future__ import annotations

import dataclasses
import io
import tarfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from cgmcr2.datasets import DatasetInfo, dataset_info


@pytest.fixture
def small() -> Callable[..., DatasetInfo]:
    """Description of a data set with other counts."""
    return lambda name, **counts: dataclasses.replace(dataset_info(name), **counts)


@pytest.fixture
def jpeg() -> Callable[[int], bytes]:
    """JPEG file of one shade of grey."""

    def encode(grey: int) -> bytes:
        file = io.BytesIO()
        Image.fromarray(np.full((8, 8, 3), grey, np.uint8)).save(file, "JPEG", quality=95)
        return file.getvalue()

    return encode


@pytest.fixture
def write_tar() -> Callable[..., Path]:
    """Writes a tar with the given members in this order."""

    def write(path: Path, members: dict[str, bytes], mode: str = "w") -> Path:
        with tarfile.open(path, mode) as archive:  # type: ignore[call-overload]
            for name, data in members.items():
                info = tarfile.TarInfo(name)
                info.size = len(data)
                archive.addfile(info, io.BytesIO(data))
        return path

    return write
