"""Open images by path or data set name, and embed data sets together with their labels."""

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
        Path (see ``Catalog.from_source``) or data set name; an existing path takes precedence.
    data : str or path-like, optional
        Folder with the files of the data set; required for a data set name, not allowed for a path.
    download : bool
        Download missing files of the data set.
    exclude : iterable of path-like
        Folders to skip when ``source`` is a folder.

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
    ValueError: 'cifar10' is a data set name; give the folder of its files with data (--data).
    """
    if os.path.lexists(source) or not is_dataset(source):
        if data is not None:
            names = ", ".join(info.name for info in list_datasets())
            kind = "an existing path" if os.path.lexists(source) else "not one"
            raise ValueError(
                f"data (--data) is only for data set names ({names}), but {os.fspath(source)!r} is {kind}; omit it."
            )
        return Catalog.from_source(source, exclude=exclude), None
    name = dataset_info(os.fspath(source)).name
    if data is None:
        raise ValueError(f"{name!r} is a data set name; give the folder of its files with data (--data).")
    dataset = load_dataset(name, data, download=download)
    return dataset.catalog, dataset


def is_dataset(source: StrPath) -> bool:
    """Whether ``source`` is a data set name (existing paths are not considered).

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
    """Embed the images of a data set into a feature store, together with its labels.

    Resumes an interrupted extraction.

    Parameters
    ----------
    dataset : Dataset
        Images and labels.
    encoder : str
        Name of the encoder.
    folder : str or path-like
        Feature store; created if it does not exist.
    progress : bool
        Show a progress bar.
    **annotations : ndarray of shape (n,)
        Further labels of the images, saved under these names.

    Returns
    -------
    store : FeatureStore
        The features of the images.
    """
    store = extract(dataset.catalog, load_encoder(encoder), folder, progress=progress)
    save_labels(store, dataset, **annotations)
    return store


def save_labels(store: FeatureStore, dataset: Dataset, **annotations: NDArray[np.int64]) -> None:
    """Save the labels, split and class names of a data set in the feature store of its images.

    ``annotations`` are further labels (n,), saved under their names.
    """
    split = {} if dataset.split is None else {"split": dataset.split}
    write_annotations(store, dataset.catalog.ids, dataset.classes, labels=dataset.labels, **split, **annotations)
