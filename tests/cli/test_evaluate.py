"""evaluate as a user types it."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from cgmcr2.cli import run


def test_scores_belong_to_the_predicted_labels(
    features: Path, fitted: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("predict", fitted, features, "-o", tmp_path / "labels.csv", "--part", "test") == 0
    with (tmp_path / "labels.csv").open(newline="") as file:
        predicted = [int(row["cluster"]) for row in csv.DictReader(file)]
    capsys.readouterr()
    assert run("evaluate", fitted, features, "--json") == 0
    values = json.loads(capsys.readouterr().out)
    assert values["sizes"] == np.bincount(predicted, minlength=10).tolist()
    assert values["protocol"] == (
        "fitted on split 0 (200 rows), predicted split 1 (100 rows) with the cluster head, 1 seed"
    )
    assert 0.1 < values["acc"] <= 1


def test_spectral_clustering_and_other_labels(features: Path, fitted: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("evaluate", fitted, features, "--spectral", "--labels", "odd", "--part", "all") == 0
    output = capsys.readouterr().out
    assert output.startswith("ACC ")
    assert "predicted all rows (300 rows) by spectral clustering of the embedding" in output


def test_labels_are_required(fitted: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.savez(tmp_path / "unlabelled.npz", features=np.zeros((4, 64), np.float32))
    assert run("evaluate", fitted, tmp_path / "unlabelled.npz") == 2
    assert "has no 'labels' to compare with" in capsys.readouterr().err
