"""MNIST and Fashion-MNIST: four IDX files, plain or gzipped."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from cgmcr2.datasets.catalogs import pixel_catalog
from cgmcr2.datasets.dataset import Dataset, train_test_split
from cgmcr2.datasets.files import find_path
from cgmcr2.datasets.idx import read_idx
from cgmcr2.datasets.info import DatasetInfo

_CLOTHES = ["T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"]


def read_mnist(info: DatasetInfo, root: Path) -> Dataset:
    """Read MNIST or Fashion-MNIST, whose files have the same names."""
    pixels, labels = {}, []
    for part, prefix in (("train", "train"), ("test", "t10k")):
        image_file = find_path(info, root, f"{prefix}-images-idx3-ubyte.gz", f"{prefix}-images-idx3-ubyte")
        label_file = find_path(info, root, f"{prefix}-labels-idx1-ubyte.gz", f"{prefix}-labels-idx1-ubyte")
        pixels[part] = read_idx(image_file, 3)  # (n, 28, 28)
        labels.append(read_idx(label_file, 1))
        if len(pixels[part]) != len(labels[-1]):
            raise ValueError(
                f"'{image_file}' has {len(pixels[part]):,} images, but '{label_file}' has {len(labels[-1]):,} labels: "
                "download both again."
            )
    split = train_test_split(len(labels[0]), len(labels[1]))
    classes = _CLOTHES if info.name == "fashion-mnist" else [str(digit) for digit in range(10)]
    return Dataset(info, pixel_catalog(str(root), **pixels), np.concatenate(labels).astype(np.int64), split, classes)
