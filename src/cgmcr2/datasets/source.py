"""Open images by path or by the name of a data set, and save the labels of a data set with its features."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cgmcr2.datasets.dataset import Dataset
from cgmcr2.datasets.info import dataset_info, list_datasets
from cgmcr2.datasets.load import load_dataset
from cgmcr2.encoders import load_encoder
from cgmcr2.features import FeatureStore, extract
from cgmcr2.features.annotations import write_annotations
from cgmcr2.images import Catalog

StrPath = str | os.PathLike[str]


def open_images(
    source: StrPath, data: StrPath | None = None, *, download: bool = False, exclude: Iterable[StrPath] = ()
) -> tuple[Catalog, Dataset | None]:
    """Open the images at a path, or those of a data set.

    Parameters
    ----------
    source : str or path-like
        Path (see ``Catalog.from_source``) or name of a data set; an existing path takes precedence.
    data : str or path-like, optional
        Folder with the files of the data set.
    download : bool
        Download missing files of the data set.
    exclude : iterable of path-like
        Folders to skip.

    Returns
    -------
    catalog : Catalog
        The images.
    dataset : Dataset or None
        The data set; None for a path.

    Examples
    --------
    >>> open_images("cifar10")
    Traceback (most recent call last):
    ...
    ValueError: cifar10 is a data set: give the folder of its files with --data (data=).
    """
    if os.path.lexists(source) or not is_dataset(source):
        if data is not None:
            names = ", ".join(info.name for info in list_datasets())
            kind = "an existing path" if os.path.lexists(source) else "not a data set"
            raise ValueError(f"--data requires a data set ({names}), but {os.fspath(source)} is {kind}: omit --data.")
        return Catalog.from_source(source, exclude=exclude), None
    name = dataset_info(os.fspath(source)).name
    if data is None:
        raise ValueError(f"{name} is a data set: give the folder of its files with --data (data=).")
    dataset = load_dataset(name, data, download=download)
    return dataset.catalog, dataset


def is_dataset(source: StrPath) -> bool:
    """Return whether ``source`` is the name of a data set, even if a path of that name exists.

    >>> is_dataset("CIFAR-10"), is_dataset("photos")
    (True, False)
    """
    try:
        return Path(source).name == os.fspath(source) and bool(dataset_info(os.fspath(source)))
    except ValueError:
        return False


def embed_dataset(
    dataset: Dataset, encoder: str, folder: StrPath, *, progress: bool = False, **annotations: NDArray[np.int64]
) -> FeatureStore:
    """Embed the images of a data set into a feature store, and save its labels and ``annotations`` with them.

    An interrupted call can be repeated to resume.
    """
    store = extract(dataset.catalog, load_encoder(encoder), folder, progress=progress)
    save_labels(store, dataset, **annotations)
    return store


def save_labels(store: FeatureStore, dataset: Dataset, **annotations: NDArray[np.int64]) -> None:
    """Save labels, split and class names of a data set in the feature store of its images, for evaluation."""
    split = {} if dataset.split is None else {"split": dataset.split}
    write_annotations(store, dataset.catalog.ids, dataset.classes, labels=dataset.labels, **split, **annotations)
