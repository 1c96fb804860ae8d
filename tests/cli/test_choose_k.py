"""choose-k and -k auto, as a user types them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from cgmcr2 import CgMCR2
from cgmcr2.cli import run

QUICK = ["-q", "--set", "hidden_dim=16", "--set", "warmup_epochs=2", "--set", "finetune_epochs=2", "--set", "n_heads=1"]


@pytest.fixture(scope="module")
def features(tmp_path_factory: pytest.TempPathFactory) -> Path:
    random = np.random.default_rng(0)
    y = np.arange(200) % 4
    X = (np.eye(12)[y] * 3 + random.standard_normal((200, 12)) * 0.4).astype(np.float32)
    path = tmp_path_factory.mktemp("features") / "four.npz"
    np.savez(path, features=X, labels=y, split=(np.arange(200) % 10 == 0).astype(int))
    return path


def test_it_prints_the_curve_and_keeps_the_answer(
    features: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("choose-k", features, "-o", tmp_path / "run", "--most", 9, "-q") == 0
    out = capsys.readouterr().out
    assert "  <- chosen" in out
    assert "4 clusters fit best" in out
    kept = json.loads((tmp_path / "run" / "choice.json").read_text())
    assert (kept["chosen"], kept["candidates"]) == (4, list(range(2, 10)))
    assert run("fit", features, "-k", 4, "-o", tmp_path / "run", *QUICK) == 0  # the same folder takes the run


def test_a_run_that_chooses_says_so_and_is_used_like_any_other(
    features: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    assert run("fit", features, "-k", "auto", "-o", folder, *QUICK) == 0
    assert "4 clusters fit best" in capsys.readouterr().out
    info = json.loads((folder / "run.json").read_text())
    assert (info["parameters"]["n_clusters"], info["choice"]["chosen"]) == ("auto", 4)
    assert 0 < info["agreement"] <= 1
    model = CgMCR2.load(folder / "model")
    assert (model.n_clusters, model.n_clusters_) == ("auto", 4)
    assert model.choice_ is not None
    assert model.choice_.chosen == 4
    assert run("predict", folder, features, "-o", tmp_path / "new.csv") == 0
    assert run("evaluate", folder, features, "--spectral") == 0
    assert run("report", folder, "--map", "pca") == 0
    assert 'id="choice"' in (folder / "report.html").read_text()
    assert run("fit", features, "--config", folder / "run.json", "-o", tmp_path / "again", "-q") == 0
    assert (tmp_path / "again" / "labels.csv").read_bytes() == (folder / "labels.csv").read_bytes()


def test_of_images_the_features_are_kept_for_the_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for i in range(24):
        colour = ((250, 20, 20), (20, 20, 250))[i % 2]
        pixels = np.full((32, 32, 3), colour) - np.random.default_rng(i).integers(20, size=(32, 32, 3))
        Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8)).save(tmp_path / f"{i}.png")
    out = tmp_path / "run"
    assert run("choose-k", tmp_path, "-o", out, "-q") == 0
    assert (out / "features" / "manifest.json").exists()
    assert "to go on: -k 2 -o" in capsys.readouterr().out
