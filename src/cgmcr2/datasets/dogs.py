"""Stanford Dogs-120: one folder per breed, and a MATLAB file that lists all images with their labels."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from cgmcr2.datasets.catalogs import selection_catalog
from cgmcr2.datasets.dataset import Dataset
from cgmcr2.datasets.files import find_path
from cgmcr2.datasets.info import DatasetInfo
from cgmcr2.datasets.mat import read_mat
from cgmcr2.images import Catalog


def read_dogs(info: DatasetInfo, root: Path) -> Dataset:
    """Read all images from the folder ``Images`` or from ``images.tar``, in the order of ``file_list.mat``."""
    lists = find_path(info, root, "file_list.mat", "lists/file_list.mat", "lists.tar")
    images = Catalog.from_source(find_path(info, root, "Images", "images.tar"))
    names, numbers = read_mat(lists, "file_list.mat", "file_list", "labels")
    files = [str(name) for name in np.atleast_1d(names)]
    labels = np.atleast_1d(numbers).astype(np.int64) - 1  # MATLAB counts from 1
    if len(files) != len(labels):
        raise ValueError(
            f"file_list.mat in '{lists}' has {len(files):,} names but {len(labels):,} labels: download it again."
        )
    indices = {id.removeprefix("Images/"): index for id, index in images.positions.items()}
    for name in files:
        if name not in indices:
            raise ValueError(
                f"{info.title} lists {name!r}, which is not in {images.origin!r}: download the images again."
            )
    breeds: dict[int, str] = {}
    for name, label in zip(files, labels, strict=True):
        # The breed is part of the path: n02085620-Chihuahua/n02085620_7.jpg
        breeds.setdefault(int(label), name.partition("/")[0].partition("-")[2].replace("_", " "))
    catalog = selection_catalog(str(root), ((f"Images/{name}", images, indices[name]) for name in files))
    return Dataset(info, catalog, labels, None, [breeds[label] for label in sorted(breeds)])
