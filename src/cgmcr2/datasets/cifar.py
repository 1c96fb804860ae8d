"""CIFAR-10, CIFAR-100, and CIFAR-20 (CIFAR-100 with its 20 superclasses), read from the Python batches."""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cgmcr2.datasets.catalogs import pixel_catalog
from cgmcr2.datasets.dataset import Dataset, train_test_split
from cgmcr2.datasets.files import find_path, read_files
from cgmcr2.datasets.info import DatasetInfo
from cgmcr2.datasets.unpickle import load_arrays


@dataclass(frozen=True)
class _Layout:
    """File names of a CIFAR data set, and the keys of its labels and class names."""

    folder: str
    archive: str
    train: tuple[str, ...]
    test: str
    meta: str
    labels: str
    class_names: str


_CIFAR_100 = ("cifar-100-python", "cifar-100-python.tar.gz", ("train",), "test", "meta")
_LAYOUTS = {
    "cifar10": _Layout(
        "cifar-10-batches-py",
        "cifar-10-python.tar.gz",
        tuple(f"data_batch_{number}" for number in range(1, 6)),
        "test_batch",
        "batches.meta",
        "labels",
        "label_names",
    ),
    "cifar20": _Layout(*_CIFAR_100, labels="coarse_labels", class_names="coarse_label_names"),
    "cifar100": _Layout(*_CIFAR_100, labels="fine_labels", class_names="fine_label_names"),
}


def read_cifar(info: DatasetInfo, root: Path) -> Dataset:
    """Read CIFAR-10, CIFAR-20 or CIFAR-100 from the folder of batches or from the downloaded archive."""
    layout = _LAYOUTS[info.name]
    path = find_path(
        info, root, layout.folder, layout.archive, layout.meta
    )  # root may be the folder itself, which contains meta
    files = read_files(path, [*layout.train, layout.test, layout.meta])
    train = [_read_batch(files[name], layout.labels, name) for name in layout.train]
    test = [_read_batch(files[layout.test], layout.labels, layout.test)]
    pixels = {
        "train": np.concatenate([images for images, _ in train]),
        "test": np.concatenate([images for images, _ in test]),
    }
    labels = np.concatenate([labels for _, labels in train + test])
    names = load_arrays(io.BytesIO(files[layout.meta]), layout.meta).get(layout.class_names)
    if not isinstance(names, list):
        raise ValueError(
            f"{layout.meta!r} in '{path}' has no list {layout.class_names!r}: download the official file again."
        )
    classes = [name.decode() if isinstance(name, bytes) else str(name) for name in names]
    split = train_test_split(len(pixels["train"]), len(pixels["test"]))
    return Dataset(info, pixel_catalog(str(root), **pixels), labels, split, classes)


def _read_batch(data: bytes, label_key: str, name: str) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return pixels (n, 32, 32, 3) and labels (n,) of a batch, which stores each image as (3, 32, 32)."""
    batch: dict[str, Any] = load_arrays(io.BytesIO(data), name)
    rows, labels = batch.get("data"), batch.get(label_key)
    if not isinstance(rows, np.ndarray) or rows.ndim != 2 or rows.shape[1] != 3072 or not isinstance(labels, list):
        raise ValueError(
            f"{name!r} has no 'data' of shape (n, 3072) with {label_key!r}: download the official file again."
        )
    if len(rows) != len(labels):
        raise ValueError(
            f"{name!r} has {len(rows):,} images but {len(labels):,} labels: download the official file again."
        )
    return np.ascontiguousarray(rows.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)), np.array(labels, np.int64)
