"""demo as a user types it, with fast stand-ins for the training and for k-means."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits

from cgmcr2 import pipeline
from cgmcr2.cli import demo, run
from cgmcr2.clustering import Clustering
from cgmcr2.features import extract
from cgmcr2.images import Catalog


@pytest.fixture
def accuracy(monkeypatch: pytest.MonkeyPatch) -> dict[str, float]:
    """Accuracy of the stand-in for ``cluster_images``, to be set by the test."""
    values = {"wanted": 1.0}

    def cluster_images(source: Path, n_clusters: int, folder: Path, **_: Any) -> SimpleNamespace:
        labels = load_digits(return_X_y=True)[1]
        wrong = np.arange(len(labels)) >= values["wanted"] * len(labels)
        ids = [f"{number:04}.png" for number in range(len(labels))]
        encoder = SimpleNamespace(
            name="row",
            fingerprint="row",
            dim=8,
            image_size=8,
            preprocess=lambda image: np.asarray(image.resize((8, 8))),
            encode=lambda batch: batch[:, 0, :, 0].astype(np.float32),
        )
        store = extract(Catalog.from_source(source), encoder, folder / "features", progress=False)
        run_folder = SimpleNamespace(
            info=SimpleNamespace(finished=True), store=store.path, report=folder / "report.html"
        )
        return SimpleNamespace(folder=run_folder, clustering=Clustering(ids, (labels + wrong) % n_clusters))

    monkeypatch.setattr(pipeline, "cluster_images", cluster_images)
    return values


def test_scores_and_protocol(accuracy: dict[str, float], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["demo", "-o", tmp_path / "demo"]
    assert run(*words) == 0
    output = capsys.readouterr()
    assert output.err.startswith("1. Writing 1,797 images of handwritten digits")
    assert output.out.startswith("CgMCR²   ACC 100.0 %  NMI 100.0 %")
    assert "\nk-means  ACC " in output.out
    assert "Protocol: fitted on all 1,797 images, labelled the same images, 1 seed (0)" in output.out
    accuracy["wanted"] = 0.8
    assert run(*words, "-q", "--json") == 1
    output = capsys.readouterr()
    assert output.err == (
        "cgmcr2: The accuracy is 80.0 %, but at least 85 % is expected; the installation or the method is broken.\n"
    )
    assert json.loads(output.out)["cgmcr2"]["acc"] == pytest.approx(0.8, abs=1e-3)
    assert run(*words, "-q", "--seed", 1) == 0  # the limit holds for the default seed


def test_minimum_accuracy() -> None:
    assert demo.MIN_ACCURACY >= 0.85
