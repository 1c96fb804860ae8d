"""ImageNet-1k from small files in the official format."""

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

TRAIN = {"n01443537": {"n01443537_2.JPEG": 40}, "n01440764": {"n01440764_18.JPEG": 80, "n01440764_10.JPEG": 120}}
VAL = {"ILSVRC2012_val_00000002.JPEG": 160, "ILSVRC2012_val_00000001.JPEG": 200}


def kit() -> dict[str, bytes]:
    kind = [("ILSVRC2012_ID", "O"), ("WNID", "O"), ("words", "O"), ("num_children", "O"), ("children", "O")]
    synsets = np.array(
        [
            [(1, "n01443537", "goldfish, Carassius auratus", 0, np.zeros((1, 0)))],
            [(2, "n01440764", "tench, Tinca tinca", 0, np.zeros((1, 0)))],
            [(3, "n02512053", "fish", 2, np.array([[1.0, 2.0]]))],  # not a leaf, hence not a class
        ],
        dtype=kind,
    )
    file = io.BytesIO()
    savemat(file, {"synsets": synsets})
    return {"data/meta.mat": file.getvalue(), "data/ILSVRC2012_validation_ground_truth.txt": b"1\n2\n"}


def write(root: Path, jpeg: Jpeg, write_tar: WriteTar, layout: str) -> None:
    if layout == "tars":
        inner = {
            f"{wnid}.tar": write_tar(
                root / "inner.tar", {name: jpeg(grey) for name, grey in images.items()}
            ).read_bytes()
            for wnid, images in TRAIN.items()
        }
        (root / "inner.tar").unlink()
        write_tar(root / "ILSVRC2012_img_train.tar", inner)
        write_tar(root / "ILSVRC2012_img_val.tar", {name: jpeg(grey) for name, grey in VAL.items()})
        members = {f"ILSVRC2012_devkit_t12/{name}": data for name, data in kit().items()}
        write_tar(root / "ILSVRC2012_devkit_t12.tar.gz", members, "w:gz")
        return
    files = {f"train/{wnid}/{name}": jpeg(grey) for wnid, images in TRAIN.items() for name, grey in images.items()}
    for name, grey in VAL.items():
        files[f"val/{'n01443537/' if layout == 'class folders' else ''}{name}"] = jpeg(grey)
    files |= {f"ILSVRC2012_devkit_t12/{name}": data for name, data in kit().items()}
    for name, data in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(data)


@pytest.mark.parametrize("layout", ["tars", "folders", "class folders"])
def test_train_and_validation(tmp_path: Path, small: Small, jpeg: Jpeg, write_tar: WriteTar, layout: str) -> None:
    write(tmp_path, jpeg, write_tar, layout)
    data = load_dataset(small("imagenet1k", train=3, test=2, classes=2), tmp_path)
    assert data.classes == ["tench, Tinca tinca", "goldfish, Carassius auratus"]
    assert data.catalog.ids == [
        "train/n01440764/n01440764_10.JPEG",
        "train/n01440764/n01440764_18.JPEG",
        "train/n01443537/n01443537_2.JPEG",
        "val/ILSVRC2012_val_00000001.JPEG",
        "val/ILSVRC2012_val_00000002.JPEG",
    ]
    assert data.labels.tolist() == [0, 0, 1, 1, 0]
    assert data.train_rows.tolist() == [0, 1, 2]
    for row, grey in enumerate([120, 80, 40, 200, 160]):
        pixel = decode(data.catalog[row]).getpixel((4, 4))
        assert isinstance(pixel, tuple)
        assert abs(pixel[0] - grey) < 4


def test_wrong_counts_and_missing_ground_truth(tmp_path: Path, jpeg: Jpeg, write_tar: WriteTar) -> None:
    write(tmp_path, jpeg, write_tar, "folders")
    with pytest.raises(ValueError, match="has 3 training and 2 test images, but needs 1,281,167 and 50,000"):
        load_dataset("imagenet1k", tmp_path)
    truth = tmp_path / "ILSVRC2012_devkit_t12" / "data" / "ILSVRC2012_validation_ground_truth.txt"
    truth.write_text("1\n")
    with pytest.raises(ValueError, match="has no ground-truth label in"):
        load_dataset("imagenet1k", tmp_path)
    truth.unlink()
    with pytest.raises(FileNotFoundError, match=r"'data/ILSVRC2012_validation_ground_truth\.txt' was not found in"):
        load_dataset("imagenet1k", tmp_path)


def test_truncated_tar(tmp_path: Path, jpeg: Jpeg, write_tar: WriteTar) -> None:
    write(tmp_path, jpeg, write_tar, "tars")
    path = tmp_path / "ILSVRC2012_img_train.tar"
    path.write_bytes(path.read_bytes()[:700])
    with pytest.raises(ValueError, match="cannot be read as a nested tar archive"):
        load_dataset("imagenet1k", tmp_path)
