"""Load data sets by name, check their descriptions, and extract their features."""

from __future__ import annotations

import gzip
import pickle
import struct
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from cgmcr2.datasets import DatasetInfo, list_datasets, load_dataset
from cgmcr2.datasets.load import _READERS
from cgmcr2.features import extract


def test_every_data_set_has_a_description_and_a_reader() -> None:
    assert {info.name for info in list_datasets()} == set(_READERS)
    for info in list_datasets():
        assert info.licence
        assert info.citation
        assert info.homepage.startswith("http")
        assert all(len(download.md5) == 32 for download in info.downloads)


def test_counts_match_the_supplement_of_the_paper() -> None:
    counts = {info.name: (info.classes, info.train, info.test) for info in list_datasets()}
    assert counts == {
        "mnist": (10, 60_000, 10_000),
        "fashion-mnist": (10, 60_000, 10_000),
        "cifar10": (10, 50_000, 10_000),
        "cifar20": (20, 50_000, 10_000),
        "cifar100": (100, 50_000, 10_000),
        "flowers102": (102, 8_189, 0),  # 8,192 in the paper, 8,189 in the official files
        "dogs120": (120, 20_580, 0),
        "tinyimagenet": (200, 100_000, 10_000),
        "imagenet1k": (1000, 1_281_167, 50_000),
    }


def test_unknown_name(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no data set 'svhn': choose from mnist, fashion-mnist, cifar10"):
        load_dataset("svhn", tmp_path)


def test_features_of_a_data_set(tmp_path: Path, small: Callable[..., DatasetInfo]) -> None:
    for prefix in ("train", "t10k"):
        images = np.arange(10, dtype=np.uint8).repeat(784).reshape(10, 28, 28)
        for kind, array in (("images-idx3", images), ("labels-idx1", np.arange(10, dtype=np.uint8))):
            header = struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape)
            (tmp_path / f"{prefix}-{kind}-ubyte.gz").write_bytes(gzip.compress(header + array.tobytes()))
    data = load_dataset(small("mnist", train=10, test=10), tmp_path)
    encoder = SimpleNamespace(
        name="mean",
        dim=3,
        fingerprint="mean-1",
        image_size=8,
        preprocess=lambda image: np.asarray(image.resize((2, 2))),
        encode=lambda batch: batch.mean(axis=(1, 2)).astype(np.float32),
    )
    store = extract(data.catalog, cast(Any, encoder), tmp_path / "store", progress=False)
    assert store.ids == data.catalog.ids
    np.testing.assert_array_equal(store[np.arange(20)][:, 0], data.labels)
    assert pickle.loads(pickle.dumps(data.catalog[3])).open().getpixel((0, 0)) == 3  # as for another process
