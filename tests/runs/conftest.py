"""A finished run on features."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import make_blobs

from cgmcr2 import CgMCR2
from cgmcr2.runs import RunFolder, fit_features

QUICK: dict[str, Any] = {
    "hidden_dim": 16,
    "warmup_epochs": 10,
    "finetune_epochs": 10,
    "n_heads": 1,
    "lr": 0.01,
}


@pytest.fixture(scope="session")
def features(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A feature file of 90 rows in three groups: 60 for training and 30 for testing."""
    X, y = make_blobs(90, n_features=8, centers=3, random_state=0)
    path = tmp_path_factory.mktemp("features") / "blobs.npz"
    np.savez(path, features=X.astype(np.float32), labels=y, split=np.arange(90) % 3 == 2)
    return path


@pytest.fixture(scope="session")
def model() -> CgMCR2:
    return CgMCR2(3, settings=QUICK)


@pytest.fixture(scope="session")
def run(features: Path, model: CgMCR2, tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    return fit_features(model, features, tmp_path_factory.mktemp("runs") / "run").folder
