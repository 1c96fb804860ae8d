"""MNIST and Fashion-MNIST: four idx files, gzipped or not."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from cgmcr2.datasets.catalogs import pixel_catalog
from cgmcr2.datasets.dataset import Dataset
from cgmcr2.datasets.facts import DatasetInfo
from cgmcr2.datasets.idx import read_idx
from cgmcr2.datasets.places import find

_CLOTHES = "T-shirt/top,Trouser,Pullover,Dress,Coat,Sandal,Shirt,Sneaker,Bag,Ankle boot"


def read_mnist(info: DatasetInfo, root: Path) -> Dataset:
    """MNIST, or Fashion-MNIST, whose files have the same names: each is looked for in its own folder first."""
    pixels, labels = {}, []
    for part, prefix in (("train", "train"), ("test", "t10k")):
        images = find(info, root, f"{prefix}-images-idx3-ubyte.gz", f"{prefix}-images-idx3-ubyte")
        numbers = find(info, root, f"{prefix}-labels-idx1-ubyte.gz", f"{prefix}-labels-idx1-ubyte")
        pixels[part] = read_idx(images, 3)  # (n, 28, 28)
        labels.append(read_idx(numbers, 1))
        if len(pixels[part]) != len(labels[-1]):
            raise ValueError(
                f"'{images}' has {len(pixels[part]):,} images, but '{numbers}' has {len(labels[-1]):,} labels: "
                "get both again."
            )
    split = np.repeat(np.array([0, 1], np.int8), [len(part) for part in labels])
    classes = _CLOTHES.split(",") if info.name == "fashion-mnist" else [str(digit) for digit in range(10)]
    return Dataset(info, pixel_catalog(str(root), **pixels), np.concatenate(labels).astype(np.int64), split, classes)
