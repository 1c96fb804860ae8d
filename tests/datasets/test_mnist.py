"""MNIST and Fashion-MNIST from small idx files."""

from __future__ import annotations

import gzip
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from cgmcr2.datasets import DatasetInfo, load_dataset
from cgmcr2.datasets.idx import read_idx
from cgmcr2.images import decode

Small = Callable[..., DatasetInfo]


def idx(array: np.ndarray) -> bytes:
    return struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape) + array.tobytes()


def write(folder: Path, n_train: int = 20, n_test: int = 10, *, gzipped: bool = True, shade: int = 0) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for prefix, n in (("train", n_train), ("t10k", n_test)):
        images = np.full((n, 28, 28), shade, np.uint8)
        images[:, 0, 0] = np.arange(n)
        for kind, array in (("images-idx3", images), ("labels-idx1", (np.arange(n) % 10).astype(np.uint8))):
            data = idx(array)
            path = folder / f"{prefix}-{kind}-ubyte{'.gz' if gzipped else ''}"
            path.write_bytes(gzip.compress(data) if gzipped else data)


@pytest.mark.parametrize("gzipped", [True, False])
def test_reads_images_labels_and_split(tmp_path: Path, small: Small, gzipped: bool) -> None:
    write(tmp_path, gzipped=gzipped)
    data = load_dataset(small("mnist", train=20, test=10), tmp_path)
    assert len(data) == len(data.catalog) == 30
    assert data.labels.tolist() == [i % 10 for i in range(20)] + [i % 10 for i in range(10)]
    assert data.split is not None
    assert data.split.tolist() == [0] * 20 + [1] * 10
    assert data.test_rows.tolist() == list(range(20, 30))
    assert data.classes == list("0123456789")
    assert data.catalog.ids[20] == "test/00000.png"
    assert decode(data.catalog[27]).getpixel((0, 0)) == (7, 7, 7)


def test_two_data_sets_in_one_root(tmp_path: Path, small: Small) -> None:
    write(tmp_path / "MNIST" / "raw", shade=1)
    write(tmp_path / "fashion-mnist", shade=2)
    for name, shade, first in (("mnist", 1, "0"), ("fashion-mnist", 2, "T-shirt/top")):
        data = load_dataset(small(name, train=20, test=10), tmp_path)
        assert decode(data.catalog[0]).getpixel((5, 5)) == (shade,) * 3
        assert data.classes[0] == first


def test_fingerprint_depends_on_the_pixels_and_not_on_the_folder(tmp_path: Path, small: Small) -> None:
    fingerprints = []
    for folder, shade in (("a", 0), ("b", 0), ("c", 3)):
        write(tmp_path / folder, shade=shade)
        data = load_dataset(small("mnist", train=20, test=10), tmp_path / folder)
        fingerprints.append(data.catalog.fingerprint)
    assert fingerprints[0] == fingerprints[1] != fingerprints[2]


def test_wrong_counts(tmp_path: Path) -> None:
    write(tmp_path)
    with pytest.raises(ValueError, match="has 20 training and 10 test images, but needs 60,000 and 10,000"):
        load_dataset("mnist", tmp_path)


def test_missing_class(tmp_path: Path, small: Small) -> None:
    write(tmp_path, n_train=5, n_test=5)
    with pytest.raises(ValueError, match="labels from 0 to 4, but needs each of the 10 classes"):
        load_dataset(small("mnist", train=5, test=5), tmp_path)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "not an IDX file"),
        (idx(np.zeros((2, 3, 3), np.uint8))[:-1], r"declares an array of shape \(2, 3, 3\)"),
        (idx(np.zeros(3, np.uint8)), "with 3 axes"),
        (gzip.compress(idx(np.zeros((2, 3, 3), np.uint8)))[:-9], "damaged gzip"),
    ],
    ids=["empty", "truncated", "axes", "damaged gzip"],
)
def test_damaged_idx_files(tmp_path: Path, data: bytes, message: str) -> None:
    (tmp_path / "file").write_bytes(data)
    with pytest.raises(ValueError, match=message):
        read_idx(tmp_path / "file", 3)


def test_different_numbers_of_images_and_labels(tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / "train-labels-idx1-ubyte.gz").write_bytes(gzip.compress(idx(np.zeros(19, np.uint8))))
    with pytest.raises(ValueError, match=r"20 images, but .* has 19 labels"):
        load_dataset("mnist", tmp_path)
