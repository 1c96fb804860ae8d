"""TinyImageNet: one folder per class for training, one folder and a label file for validation."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from cgmcr2.datasets.catalogs import selection_catalog
from cgmcr2.datasets.dataset import Dataset, train_test_split
from cgmcr2.datasets.files import find_path
from cgmcr2.datasets.info import DatasetInfo
from cgmcr2.images import Catalog

_PREFIX = "tiny-imagenet-200/"
_ANNOTATIONS = "val/val_annotations.txt"
_TRAIN = re.compile(r"train/(n\d{8})/images/.+\.JPEG$")


def read_tinyimagenet(info: DatasetInfo, root: Path) -> Dataset:
    """Read the training set and the validation set (the paper's test set) from the folder or its zip archive.

    Classes are sorted by WordNet ID.
    """
    path = find_path(info, root, "tiny-imagenet-200", "tiny-imagenet-200.zip", "wnids.txt")
    images = Catalog.from_source(path.parent if path.name == "wnids.txt" else path)
    indices = {id.removeprefix(_PREFIX): index for id, index in images.positions.items()}
    wnids = sorted(row[0].strip() for row in _read_table(images, indices, "wnids.txt"))
    words = {row[0]: row[1] for row in _read_table(images, indices, "words.txt", columns=2)}
    train = sorted((id, match[1]) for id in indices if (match := _TRAIN.match(id)))
    test = [(f"val/images/{row[0]}", row[1]) for row in _read_table(images, indices, _ANNOTATIONS, columns=2)]
    samples = train + sorted(test)
    label_of = {wnid: label for label, wnid in enumerate(wnids)}
    for id, wnid in samples:
        if wnid not in label_of:
            raise ValueError(
                f"{id!r} in '{path}' has unknown class {wnid!r} (not in wnids.txt): download the official file again."
            )
        if id not in indices:
            raise ValueError(
                f"{_ANNOTATIONS} lists {id!r}, which is not in '{path}': download the official file again."
            )
    catalog = selection_catalog(str(root), ((id, images, indices[id]) for id, _ in samples))
    labels = np.array([label_of[wnid] for _, wnid in samples], np.int64)
    classes = [words.get(wnid, wnid) for wnid in wnids]
    return Dataset(info, catalog, labels, train_test_split(len(train), len(test)), classes)


def _read_table(images: Catalog, indices: dict[str, int], name: str, *, columns: int = 1) -> list[list[str]]:
    """Return the tab-separated fields of each line; lines with fewer than ``columns`` fields are skipped."""
    if name not in indices:
        raise FileNotFoundError(f"{name!r} was not found in {images.origin!r}: download the official file again.")
    file = images[indices[name]].load()
    assert not isinstance(file, np.ndarray)  # folders and zip archives contain files
    with file:
        rows = [line.split("\t") for line in file.read().decode().splitlines() if line.strip()]
    return [row for row in rows if len(row) >= columns]
