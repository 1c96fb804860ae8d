"""Several feature spaces on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from cgmcr2.cli import run


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two feature files of the same 120 rows in four groups."""
    folder = tmp_path_factory.mktemp("spaces")
    rng, y = np.random.default_rng(0), np.arange(120) % 4
    for name, groups in (("a", y // 2), ("b", y % 2)):
        X = 3 * np.eye(6)[groups] + 0.3 * rng.standard_normal((120, 6))
        np.savez(folder / f"{name}.npz", features=X.astype(np.float32), labels=y)
    return folder / "a.npz", folder / "b.npz"


def test_fit_predict_and_evaluate(files: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    both = " + ".join(map(str, files))
    assert run("fit", *files, "-k", 4, "-o", tmp_path / "run", "-q") == 0
    assert json.loads((tmp_path / "run" / "run.json").read_text())["source"] == both
    assert run("predict", tmp_path / "run", both, "-o", tmp_path / "labels.csv", "-q") == 0
    assert len((tmp_path / "labels.csv").read_text().splitlines()) == 121
    capsys.readouterr()
    assert run("evaluate", tmp_path / "run", both, "--json") == 0
    assert json.loads(capsys.readouterr().out)["acc"] > 0.9
    assert run("report", tmp_path / "run", "-q") == 0
    assert run("predict", tmp_path / "run", files[0], "-o", tmp_path / "labels.csv") == 2
    assert "was fitted on feature spaces of widths 6 and 6" in capsys.readouterr().err


def test_cluster_with_two_encoders(
    photos: Path, quick: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    encoders = ("--encoder", "bundled?size=32", "--encoder", "bundled?size=64")
    assert run("cluster", photos, "-k", 3, *encoders, "-o", tmp_path / "run", *quick) == 0
    info = json.loads((tmp_path / "run" / "run.json").read_text())
    assert info["encoder_name"] == "bundled?size=32 + bundled?size=64"
    assert info["fitted_on"]["width"] == 2560
    assert run("predict", tmp_path / "run", photos, "-o", tmp_path / "labels.csv", "-q") == 0
    labels = [line.split(",")[1] for line in (tmp_path / "run" / "labels.csv").read_text().splitlines()[1:]]
    predicted = [line.split(",")[1] for line in (tmp_path / "labels.csv").read_text().splitlines()[1:]]
    assert predicted[: len(labels)] == labels
