from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest


@pytest.fixture(scope="session")
def small_settings() -> dict[str, Any]:
    """Settings of a training that takes a fraction of a second."""
    sizes = {"hidden_dim": 16, "embedding_dim": 8, "batch_size": 60, "lr": 3e-3, "s": 5}
    return {**sizes, "warmup_epochs": 1, "finetune_epochs": 2}


@pytest.fixture(scope="session")
def figure_features(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with random features of CIFAR-10, and of CIFAR-100 with 20 coarse classes."""
    folder = tmp_path_factory.mktemp("figure-features")
    rng = np.random.default_rng(0)
    for name, classes in (("cifar10", 10), ("cifar100-tiny", 100)):
        y = np.arange(200) % classes
        X = 2 * rng.standard_normal((classes, 12))[y] + rng.standard_normal((200, 12))
        arrays = {"labels": y, "coarse_labels": y % 20, "split": (np.arange(200) >= 120).astype(int)}
        np.savez(folder / f"{name}.npz", features=X.astype(np.float32), **arrays)
    return folder
