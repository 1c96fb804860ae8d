"""Flowers-102 from small files in the official format."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from scipy.io import savemat

from cgmcr2.datasets import DatasetInfo, load_dataset
from cgmcr2.datasets.flowers import _CLASSES
from cgmcr2.images import decode

Small = Callable[..., DatasetInfo]
Jpeg = Callable[[int], bytes]
WriteTar = Callable[..., Path]


def write(root: Path, jpeg: Jpeg, write_tar: WriteTar, *, tar: bool) -> None:
    savemat(
        root / "imagelabels.mat", {"labels": [[2, 1, 1, 2]]}
    )  # shape (1, n), counted from 1, like the official file
    files = {f"jpg/image_{number:05d}.jpg": jpeg(50 * number) for number in (3, 1, 4, 2)}
    if tar:
        write_tar(root / "102flowers.tgz", files, "w:gz")
    else:
        (root / "jpg").mkdir()
        for name, data in files.items():
            (root / name).write_bytes(data)


@pytest.mark.parametrize(("tar", "order"), [(True, [3, 1, 4, 2]), (False, [1, 2, 3, 4])])
def test_all_images_without_a_split(
    tmp_path: Path, small: Small, jpeg: Jpeg, write_tar: WriteTar, tar: bool, order: list[int]
) -> None:
    write(tmp_path, jpeg, write_tar, tar=tar)
    data = load_dataset(small("flowers102", train=4, classes=2), tmp_path)
    assert data.split is None
    assert data.train_rows.tolist() == data.test_rows.tolist() == [0, 1, 2, 3]
    assert data.catalog.ids == [f"jpg/image_{number:05d}.jpg" for number in order]
    assert data.labels.tolist() == [[1, 0, 0, 1][number - 1] for number in order]
    for row, number in enumerate(order):
        pixel = decode(data.catalog[row]).getpixel((4, 4))
        assert isinstance(pixel, tuple)
        assert abs(pixel[0] - 50 * number) < 4
    assert data.classes == ["pink primrose", "hard-leaved pocket orchid"]
    assert data.catalog.source.sequential == tar


def test_missing_image_and_wrong_count(tmp_path: Path, jpeg: Jpeg, write_tar: WriteTar) -> None:
    write(tmp_path, jpeg, write_tar, tar=False)
    with pytest.raises(ValueError, match="has 4 images, but needs 8,189"):
        load_dataset("flowers102", tmp_path)
    (tmp_path / "jpg" / "image_00002.jpg").unlink()
    with pytest.raises(ValueError, match="number 2 is only in one of them"):
        load_dataset("flowers102", tmp_path)


def test_damaged_label_file(tmp_path: Path, jpeg: Jpeg, write_tar: WriteTar) -> None:
    write(tmp_path, jpeg, write_tar, tar=False)
    (tmp_path / "imagelabels.mat").write_bytes(b"not Matlab")
    with pytest.raises(ValueError, match="cannot be read as a MATLAB file with labels"):
        load_dataset("flowers102", tmp_path)


def test_class_names_are_unique() -> None:
    assert len(set(_CLASSES.replace("\n", " ").split(", "))) == 102
