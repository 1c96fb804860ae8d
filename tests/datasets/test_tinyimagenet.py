"""TinyImageNet from small files in the official format."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from cgmcr2.datasets import DatasetInfo, load_dataset
from cgmcr2.images import decode

Small = Callable[..., DatasetInfo]
Jpeg = Callable[[int], bytes]


def files(jpeg: Jpeg) -> dict[str, bytes]:
    return {
        "wnids.txt": b"n02124075\nn01443537\n",
        "words.txt": b"n00001740\tentity\nn01443537\tgoldfish, Carassius auratus\nn02124075\tEgyptian cat\n",
        "train/n02124075/n02124075_boxes.txt": b"n02124075_0.JPEG\t0\t0\t63\t63\n",
        "train/n02124075/images/n02124075_0.JPEG": jpeg(40),
        "train/n01443537/images/n01443537_1.JPEG": jpeg(80),
        "train/n01443537/images/n01443537_0.JPEG": jpeg(120),
        "val/val_annotations.txt": b"val_1.JPEG\tn01443537\t0\t0\t1\t1\nval_0.JPEG\tn02124075\t0\t0\t1\t1\n",
        "val/images/val_1.JPEG": jpeg(160),
        "val/images/val_0.JPEG": jpeg(200),
        "test/images/test_0.JPEG": jpeg(0),
    }


def write(root: Path, contents: dict[str, bytes], layout: str) -> Path:
    if layout == "zip":
        with zipfile.ZipFile(root / "tiny-imagenet-200.zip", "w") as archive:
            for name, data in contents.items():
                archive.writestr(f"tiny-imagenet-200/{name}", data)
        return root
    for name, data in contents.items():
        path = root / "tiny-imagenet-200" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return root / "tiny-imagenet-200" if layout == "root" else root


@pytest.mark.parametrize("layout", ["zip", "folder", "root"])
def test_train_and_validation(tmp_path: Path, small: Small, jpeg: Jpeg, layout: str) -> None:
    root = write(tmp_path, files(jpeg), layout)
    data = load_dataset(small("tinyimagenet", train=3, test=2, classes=2), root)
    assert data.classes == ["goldfish, Carassius auratus", "Egyptian cat"]
    assert data.labels.tolist() == [0, 0, 1, 1, 0]
    assert data.split is not None
    assert data.split.tolist() == [0, 0, 0, 1, 1]
    assert data.catalog.ids[0] == "train/n01443537/images/n01443537_0.JPEG"
    assert data.catalog.ids[3:] == ["val/images/val_0.JPEG", "val/images/val_1.JPEG"]
    for row, grey in enumerate([120, 80, 40, 200, 160]):
        pixel = decode(data.catalog[row]).getpixel((4, 4))
        assert isinstance(pixel, tuple)
        assert abs(pixel[0] - grey) < 4


def test_missing_files(tmp_path: Path, jpeg: Jpeg) -> None:
    root = write(tmp_path, files(jpeg), "folder")
    (tmp_path / "tiny-imagenet-200" / "val" / "images" / "val_1.JPEG").unlink()
    with pytest.raises(ValueError, match=r"lists 'val/images/val_1\.JPEG', which is not in"):
        load_dataset("tinyimagenet", root)
    (tmp_path / "tiny-imagenet-200" / "words.txt").unlink()
    with pytest.raises(FileNotFoundError, match=r"'words\.txt' was not found in"):
        load_dataset("tinyimagenet", root)


def test_unlisted_class(tmp_path: Path, jpeg: Jpeg) -> None:
    root = write(tmp_path, files(jpeg) | {"wnids.txt": b"n01443537\n"}, "zip")
    with pytest.raises(ValueError, match=r"has unknown class 'n02124075' \(not in wnids\.txt\)"):
        load_dataset("tinyimagenet", root)
