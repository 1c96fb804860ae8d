"""One call for all data sets: find or fetch the files, read them, check the counts."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from cgmcr2.datasets.cifar import read_cifar
from cgmcr2.datasets.dataset import Dataset, verify
from cgmcr2.datasets.dogs import read_dogs
from cgmcr2.datasets.download import download_dataset
from cgmcr2.datasets.facts import DatasetInfo, dataset_info
from cgmcr2.datasets.flowers import read_flowers
from cgmcr2.datasets.imagenet import read_imagenet
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


def load_dataset(
    name: str, root: str | os.PathLike[str], *, download: bool = False, _info: DatasetInfo | None = None
) -> Dataset:
    """The data set ``name`` from its official files in ``root``, or in a folder of its name below.

    Archives are read as they are; unpacked folders do as well. ``download``: fetch what is not there, where the licence
    allows it. ``_info``: other facts to check against, for tests with small files.

    >>> load_dataset("mnist", "nowhere")
    Traceback (most recent call last):
    ...
    FileNotFoundError: MNIST needs train-images-idx3-ubyte.gz or train-images-idx3-ubyte in 'nowhere', which is ...
    """
    info = _info or dataset_info(name)
    place = Path(root)
    read = _READERS[info.name]
    try:
        dataset = read(info, place)
    except FileNotFoundError:
        if not (download and info.downloads):
            raise
        download_dataset(info, place)
        dataset = read(info, place)
    return verify(dataset)
