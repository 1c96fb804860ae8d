"""Load a data set: find or download its files, read them, and check the counts."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from cgmcr2.datasets.cifar import read_cifar
from cgmcr2.datasets.dataset import Dataset, check_counts
from cgmcr2.datasets.dogs import read_dogs
from cgmcr2.datasets.download import download_dataset
from cgmcr2.datasets.flowers import read_flowers
from cgmcr2.datasets.imagenet import read_imagenet
from cgmcr2.datasets.info import DatasetInfo, dataset_info
from cgmcr2.datasets.mnist import read_mnist
from cgmcr2.datasets.tinyimagenet import read_tinyimagenet

_READERS: dict[str, Callable[[DatasetInfo, Path], Dataset]] = {
    "mnist": read_mnist,
    "fashion-mnist": read_mnist,
    "cifar10": read_cifar,
    "cifar20": read_cifar,
    "cifar100": read_cifar,
    "flowers102": read_flowers,
    "dogs120": read_dogs,
    "tinyimagenet": read_tinyimagenet,
    "imagenet1k": read_imagenet,
}


def load_dataset(name: str | DatasetInfo, root: str | os.PathLike[str], *, download: bool = False) -> Dataset:
    """Load a data set from its official files, either archives or the folders unpacked from them.

    Parameters
    ----------
    name : str or DatasetInfo
        Name or description of the data set. A description with other counts loads a part of the official files.
    root : str or path-like
        Folder with the files, or with a subfolder named after the data set that contains them.
    download : bool
        Download missing files if the licence permits it.

    Returns
    -------
    dataset : Dataset
        Images, labels, split and class names.

    Examples
    --------
    >>> load_dataset("mnist", "missing")
    Traceback (most recent call last):
    ...
    FileNotFoundError: MNIST needs train-images-idx3-ubyte.gz or train-images-idx3-ubyte in 'missing', but none ...
    """
    info = name if isinstance(name, DatasetInfo) else dataset_info(name)
    folder = Path(root)
    read = _READERS[info.name]
    try:
        dataset = read(info, folder)
    except FileNotFoundError:
        if not (download and info.downloads):
            raise
        download_dataset(info, folder)
        dataset = read(info, folder)
    return check_counts(dataset)
