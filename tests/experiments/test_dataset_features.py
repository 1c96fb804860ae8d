from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cgmcr2.experiments.dataset_features import FeatureLookup, find_features, select_datasets


def test_features_of_the_tables_encoder_come_first(table_features: Path, tmp_path: Path) -> None:
    X, y = np.zeros((4, 2), np.float32), np.arange(4) % 2
    for name in ("mnist-a", "mnist-b"):
        np.savez(tmp_path / f"{name}.npz", features=X, labels=y)
    assert find_features("mnist", tmp_path, "b").encoder == "b"
    assert find_features("mnist", tmp_path, "c").encoder == "a"
    assert find_features("cifar20", table_features, "b").labels == "coarse_labels"
    with pytest.raises(FileNotFoundError, match="has no mnist-c or feature store"):
        find_features("mnist", tmp_path, "c", exact=True)


def test_features_without_labels_are_rejected(tmp_path: Path) -> None:
    np.savez(tmp_path / "cifar10.npz", features=np.zeros((4, 2), np.float32))
    with pytest.raises(ValueError, match="has no array 'labels'"):
        find_features("cifar10", tmp_path, "b")


def test_data_sets_without_features_are_noted(table_features: Path) -> None:
    features, notes = FeatureLookup(table_features).collect(["cifar10", "mnist"], "small")
    assert (features["cifar10"].title, features["cifar10"].fit_rows, features["cifar10"].classes) == ("CIFAR-10", 48, 3)
    assert list(features) == ["cifar10"]
    assert notes[0].startswith("MNIST is left out: ")
    with pytest.raises(FileNotFoundError, match="There is no folder"):
        FeatureLookup(table_features / "missing").collect(["cifar10"], "small")


def test_selection_of_data_sets() -> None:
    datasets = ("cifar10", "cifar20", "mnist")
    assert select_datasets("table-0", datasets, []) == list(datasets)
    assert select_datasets("table-0", datasets, ["MNIST", "CIFAR-10"]) == ["cifar10", "mnist"]
    with pytest.raises(ValueError, match="table-0 has no data set cifar100; it has cifar10, cifar20, mnist"):
        select_datasets("table-0", datasets, ["cifar100"])
