"""Images by a path or by a data set's name."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cgmcr2.datasets.dataset import Dataset
from cgmcr2.datasets.facts import dataset_info, list_datasets
from cgmcr2.datasets.load import load_dataset
from cgmcr2.encoders import load_encoder
from cgmcr2.features import FeatureStore, extract
from cgmcr2.features.known import write_known
from cgmcr2.images import Catalog

StrPath = str | os.PathLike[str]


def open_images(
    source: StrPath, data: StrPath | None = None, *, download: bool = False, exclude: Iterable[StrPath] = ()
) -> tuple[Catalog, Dataset | None]:
    """The images at a path (see ``Catalog.from_source``), or those of a data set by its name, whose files are in
    ``data``; what is known of them in the second case. A path that exists comes before a name.

    >>> open_images("cifar10")
    Traceback (most recent call last):
    ...
    ValueError: cifar10 is a data set here: say with --data (data=) which folder holds its files.
    """
    if os.path.lexists(source) or not is_dataset(source):
        if data is not None:
            names = ", ".join(info.name for info in list_datasets())
            what = "is a path that exists" if os.path.lexists(source) else "is no data set"
            raise ValueError(
                f"--data is for a data set's name ({names}), but {os.fspath(source)} {what}; leave it out."
            )
        return Catalog.from_source(source, exclude=exclude), None
    name = dataset_info(os.fspath(source)).name
    if data is None:
        raise ValueError(f"{name} is a data set here: say with --data (data=) which folder holds its files.")
    dataset = load_dataset(name, data, download=download)
    return dataset.catalog, dataset


def is_dataset(source: StrPath) -> bool:
    """Whether ``source`` is the name of a data set (a path of that name may exist all the same).

    >>> is_dataset("CIFAR-10"), is_dataset("photos")
    (True, False)
    """
    try:
        return Path(source).name == os.fspath(source) and bool(dataset_info(os.fspath(source)))
    except ValueError:
        return False


def embed_dataset(
    dataset: Dataset, encoder: str, folder: StrPath, *, progress: bool = False, **more: NDArray[np.int64]
) -> FeatureStore:
    """The features of a data set, in the store ``folder``, with its labels (and ``more``) beside them; resumable."""
    store = extract(dataset.catalog, load_encoder(encoder), folder, progress=progress)
    keep_labels(store, dataset, **more)
    return store


def keep_labels(store: FeatureStore, dataset: Dataset, **more: NDArray[np.int64]) -> None:
    """Keep the data set's labels, split and class names beside the features of its images, to judge by."""
    split = {} if dataset.split is None else {"split": dataset.split}
    write_known(store, dataset.catalog.ids, dataset.classes, labels=dataset.labels, **split, **more)
