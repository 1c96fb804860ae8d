"""A data set in memory: its images as a catalog, with labels, split and class names, checked against the facts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cgmcr2.datasets.facts import DatasetInfo
from cgmcr2.images import Catalog


@dataclass(frozen=True, eq=False)
class Dataset:
    """Images with what is known of them. Row i of ``labels`` and ``split`` belongs to image i of ``catalog``.

    ``labels`` (n,) numbers into ``classes``; ``split`` (n,) 0 for training, 1 for test, or None where the paper trains
    and tests on the whole.
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
        """The rows to train on: all where there is no split."""
        return self._rows(0)

    @property
    def test_rows(self) -> NDArray[np.int64]:
        """The rows to test on: all where there is no split."""
        return self._rows(1)

    def _rows(self, part: int) -> NDArray[np.int64]:
        return np.arange(len(self.labels)) if self.split is None else np.flatnonzero(self.split == part)

    def __len__(self) -> int:
        return len(self.labels)

    def __repr__(self) -> str:
        return f"Dataset({self.info.title}: {len(self)} images, {len(self.classes)} classes)"


def verify(dataset: Dataset) -> Dataset:
    """``dataset`` itself, if it has as many images and classes as the official one; else a ``ValueError``."""
    info, place = dataset.info, dataset.catalog.origin
    again = f"get the official files again from {info.homepage}"
    if len(dataset.catalog) != len(dataset.labels):
        found, wanted = (
            f"{len(dataset.catalog):,} images and {len(dataset.labels):,} labels",
            "as many labels as images",
        )
    elif dataset.split is None and len(dataset) != info.rows:
        found, wanted = f"{len(dataset):,} images", f"{info.rows:,}"
    elif dataset.split is not None and (len(dataset.train_rows), len(dataset.test_rows)) != (info.train, info.test):
        found = f"{len(dataset.train_rows):,} training and {len(dataset.test_rows):,} test images"
        wanted = f"{info.train:,} and {info.test:,}"
    elif len(dataset.classes) != info.classes:
        found, wanted = f"{len(dataset.classes):,} class names", f"{info.classes:,}"
    elif not np.array_equal(np.unique(dataset.labels), np.arange(info.classes)):
        found = f"labels from {dataset.labels.min()} to {dataset.labels.max()}"
        wanted = f"each of the {info.classes:,} classes at least once"
    else:
        return dataset
    raise ValueError(f"{info.title} in {place!r} has {found}, but needs {wanted}: {again}.")
