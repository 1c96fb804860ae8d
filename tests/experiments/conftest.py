"""Small feature files that the tests of experiments share."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest


@pytest.fixture(scope="session")
def three_groups() -> tuple[np.ndarray, np.ndarray]:
    """Features (60, 6) in three well separated groups, and the group of each row."""
    y = np.arange(60) % 3
    X = np.eye(6)[y] + 0.1 * np.random.default_rng(0).standard_normal((60, 6))
    return X.astype(np.float32), y


@pytest.fixture(scope="session")
def split_file(tmp_path_factory: pytest.TempPathFactory, three_groups: tuple[np.ndarray, np.ndarray]) -> Path:
    """A feature file with labels and a split of 48 and 12 rows."""
    X, y = three_groups
    path = tmp_path_factory.mktemp("features") / "x.npz"
    np.savez(path, features=X, labels=y, split=(np.arange(60) % 5 == 0).astype(int))
    return path


@pytest.fixture(scope="session")
def table_features(tmp_path_factory: pytest.TempPathFactory, three_groups: tuple[np.ndarray, np.ndarray]) -> Path:
    """A folder with features of CIFAR-10 and of CIFAR-100 with coarse labels, and one file that holds images."""
    X, y = three_groups
    folder = tmp_path_factory.mktemp("table-features")
    split = (np.arange(60) % 5 == 0).astype(int)
    np.savez(folder / "cifar10-images.npz", images=np.zeros((2, 4, 4, 3), np.uint8))
    np.savez(folder / "cifar10-small.npz", features=X, labels=y, split=split)
    np.savez(folder / "cifar100.npz", features=X, labels=np.arange(60) % 6, coarse_labels=y, split=split)
    return folder
