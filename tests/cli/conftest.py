"""Small inputs and fitted runs that the tests of several commands share."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits

from cgmcr2.cli import run

from .. import reading as reading
from ..colours import QUICK, write_photos


@pytest.fixture(scope="session")
def quick() -> list[str]:
    """Options for a fast training."""
    settings = ("hidden_dim=16", "warmup_epochs=4", "finetune_epochs=4", "n_heads=1")
    return ["-q", *(word for setting in settings for word in ("--set", setting))]


@pytest.fixture(scope="session")
def features(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Feature file of 300 digits, a third of them in the test split."""
    X, y = load_digits(return_X_y=True)
    X, y = X[:300].astype(np.float32), y[:300]
    path = tmp_path_factory.mktemp("features") / "digits.npz"
    np.savez(path, features=X, labels=y, split=np.arange(300) % 3 == 0, odd=y % 2, fingerprint="pixels")
    return path


@pytest.fixture(scope="session")
def fitted(features: Path, quick: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Finished run on ``features``; tests must not change it."""
    folder = tmp_path_factory.mktemp("fitted") / "run"
    assert run("fit", features, "-k", 10, "-o", folder, *quick) == 0
    return folder


@pytest.fixture(scope="session")
def four_groups(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Feature file of four clear groups."""
    y = np.arange(200) % 4
    X = np.eye(12)[y] * 3 + np.random.default_rng(0).standard_normal((200, 12)) * 0.4
    path = tmp_path_factory.mktemp("features") / "four.npz"
    np.savez(path, features=X.astype(np.float32), labels=y, split=np.arange(200) % 10 == 0, fingerprint="noise")
    return path


@pytest.fixture(scope="session")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sixty reddish, greenish and bluish images, and one empty file."""
    folder = write_photos(tmp_path_factory.mktemp("images") / "photos", 60)
    (folder / "empty.jpg").touch()
    return folder


@pytest.fixture(scope="session")
def photo_run(photos: Path, quick: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Finished run on ``photos`` with its report; tests must not change it."""
    folder = tmp_path_factory.mktemp("clustered") / "run"
    assert run("cluster", photos, "-k", 3, "-o", folder, "--encoder", "colours", *quick) == 0
    return folder


@pytest.fixture(scope="session")
def reading_run(photos: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Finished run on ``photos`` with an encoder that reads text; tests must not change it."""
    folder = tmp_path_factory.mktemp("reading") / "run"
    settings = [word for name, value in QUICK.items() for word in ("--set", f"{name}={value}")]
    encoder = ("--encoder", "reading-colours")
    assert run("cluster", photos, "-k", 3, "-o", folder, *encoder, "--no-report", "-q", *settings) == 0
    return folder
