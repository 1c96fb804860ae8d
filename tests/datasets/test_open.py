"""Open images by path or data set name, and save labels in a feature store."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from cgmcr2.datasets import Dataset, dataset_info, open_images, save_labels
from cgmcr2.datasets.catalogs import pixel_catalog
from cgmcr2.datasets.dataset import train_test_split
from cgmcr2.features import FeatureStore
from cgmcr2.features.sources import load_feature_file


def test_existing_path_takes_precedence_over_a_data_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mnist").mkdir()
    Image.new("RGB", (4, 4)).save("mnist/a.png")
    catalog, dataset = open_images("mnist")
    assert catalog.ids == ["a.png"]
    assert dataset is None
    with pytest.raises(
        ValueError, match=r"data \(--data\) is only for data set names .* but 'mnist' is an existing path; omit it"
    ):
        open_images("mnist", "data")


def test_data_set_needs_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match="'mnist' is a data set name; give the folder of its files"):
        open_images("MNIST")
    with pytest.raises(FileNotFoundError, match="MNIST needs train-images"):
        open_images("MNIST", tmp_path)


def test_labels_are_saved_for_the_rows_of_the_store(tmp_path: Path) -> None:
    catalog = pixel_catalog("memory", train=np.zeros((2, 4, 4), np.uint8), test=np.ones((1, 4, 4), np.uint8))
    dataset = Dataset(dataset_info("mnist"), catalog, np.array([5, 0, 4]), train_test_split(2, 1), list("0123456789"))
    store = FeatureStore.create(tmp_path / "store", np.eye(2, dtype=np.float32), ["test/00000.png", "train/00000.png"])
    save_labels(store, dataset, coarse=np.array([1, 0, 0]))
    file = load_feature_file(tmp_path / "store")
    assert file.labels is not None
    assert file.split is not None
    assert file.labels.tolist() == [4, 5]
    assert file.split.tolist() == [1, 0]
    coarse = load_feature_file(tmp_path / "store", labels="coarse").labels
    assert coarse is not None
    assert coarse.tolist() == [0, 1]
