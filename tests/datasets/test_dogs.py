"""Dogs-120 from small files in the official format."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from scipy.io import savemat

from cgmcr2.datasets import DatasetInfo, load_dataset
from cgmcr2.images import decode

Small = Callable[..., DatasetInfo]
Jpeg = Callable[[int], bytes]
WriteTar = Callable[..., Path]

FILES = [
    "n02085620-Chihuahua/n02085620_5927.jpg",
    "n02085620-Chihuahua/n02085620_1.jpg",
    "n02086079-Blenheim_spaniel/n02086079_7.jpg",
]


def file_list() -> bytes:
    cells = np.empty((3, 1), object)  # a cell array, like the official file
    cells[:, 0] = FILES
    file = io.BytesIO()
    savemat(file, {"file_list": cells, "labels": np.array([[1], [1], [2]], np.uint8)})
    return file.getvalue()


def write(root: Path, jpeg: Jpeg, write_tar: WriteTar, *, tar: bool) -> None:
    images = {f"Images/{name}": jpeg(60 * number) for number, name in enumerate(reversed(FILES))}
    if tar:
        write_tar(root / "images.tar", images)
        write_tar(root / "lists.tar", {"train_list.mat": b"", "file_list.mat": file_list()})
        return
    for name, data in images.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(data)
    (root / "file_list.mat").write_bytes(file_list())


@pytest.mark.parametrize("tar", [True, False])
def test_images_are_in_the_order_of_the_list(
    tmp_path: Path, small: Small, jpeg: Jpeg, write_tar: WriteTar, tar: bool
) -> None:
    write(tmp_path, jpeg, write_tar, tar=tar)
    data = load_dataset(small("dogs120", train=3, classes=2), tmp_path)
    assert data.split is None
    assert data.catalog.ids == [f"Images/{name}" for name in FILES]
    assert data.labels.tolist() == [0, 0, 1]
    assert data.classes == ["Chihuahua", "Blenheim spaniel"]
    pixel = decode(data.catalog[0]).getpixel((4, 4))
    assert isinstance(pixel, tuple)
    assert abs(pixel[0] - 120) < 4


def test_missing_image(tmp_path: Path, jpeg: Jpeg, write_tar: WriteTar) -> None:
    write(tmp_path, jpeg, write_tar, tar=False)
    (tmp_path / "Images" / FILES[1]).unlink()
    with pytest.raises(ValueError, match=f"lists '{FILES[1]}', which is not in"):
        load_dataset("dogs120", tmp_path)


def test_missing_list(tmp_path: Path, jpeg: Jpeg, write_tar: WriteTar) -> None:
    write(tmp_path, jpeg, write_tar, tar=True)
    write_tar(tmp_path / "lists.tar", {"train_list.mat": b""})
    with pytest.raises(FileNotFoundError, match=r"'file_list\.mat' was not found in"):
        load_dataset("dogs120", tmp_path)
