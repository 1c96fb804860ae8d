"""Data set: images with labels, train/test split and class names."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cgmcr2.datasets.info import DatasetInfo
from cgmcr2.images import Catalog


@dataclass(frozen=True, eq=False)
class Dataset:
    """Images of a data set with their annotations, in the same order.

    Attributes
    ----------
    info : DatasetInfo
        Name, size and licence.
    catalog : Catalog
        The n images.
    labels : ndarray of shape (n,)
        Index into ``classes``.
    split : ndarray of shape (n,) or None
        0 for training, 1 for test images; None if the paper trains and tests on all images.
    classes : list of str
        Class names.
    """

    info: DatasetInfo
    catalog: Catalog
    labels: NDArray[np.int64]
    split: NDArray[np.int8] | None
    classes: list[str]

    @property
    def name(self) -> str:
        return self.info.name

    @property
    def train_rows(self) -> NDArray[np.int64]:
        """Indices of the training images; all images if there is no split."""
        return self._rows(0)

    @property
    def test_rows(self) -> NDArray[np.int64]:
        """Indices of the test images; all images if there is no split."""
        return self._rows(1)

    def _rows(self, part: int) -> NDArray[np.int64]:
        return np.arange(len(self.labels)) if self.split is None else np.flatnonzero(self.split == part)

    def __len__(self) -> int:
        return len(self.labels)

    def __repr__(self) -> str:
        return f"Dataset({self.info.title}: {len(self)} images, {len(self.classes)} classes)"


def train_test_split(train: int, test: int) -> NDArray[np.int8]:
    """Return the ``split`` of ``train`` training images followed by ``test`` test images.

    >>> train_test_split(2, 1).tolist()
    [0, 0, 1]
    """
    return np.repeat(np.array([0, 1], np.int8), [train, test])


def check_counts(dataset: Dataset) -> Dataset:
    """Return ``dataset`` if it has the official number of images and classes; otherwise raise ``ValueError``."""
    info = dataset.info
    if len(dataset.catalog) != len(dataset.labels):
        actual = f"{len(dataset.catalog):,} images and {len(dataset.labels):,} labels"
        expected = "as many labels as images"
    elif dataset.split is None and len(dataset) != info.rows:
        actual, expected = f"{len(dataset):,} images", f"{info.rows:,}"
    elif dataset.split is not None and (len(dataset.train_rows), len(dataset.test_rows)) != (info.train, info.test):
        actual = f"{len(dataset.train_rows):,} training and {len(dataset.test_rows):,} test images"
        expected = f"{info.train:,} and {info.test:,}"
    elif len(dataset.classes) != info.classes:
        actual, expected = f"{len(dataset.classes):,} class names", f"{info.classes:,}"
    elif not np.array_equal(np.unique(dataset.labels), np.arange(info.classes)):
        actual = f"labels from {dataset.labels.min()} to {dataset.labels.max()}"
        expected = f"each of the {info.classes:,} classes at least once"
    else:
        return dataset
    raise ValueError(
        f"{info.title} in {dataset.catalog.origin!r} has {actual}, but needs {expected}: "
        f"download the official files again from {info.homepage}."
    )
