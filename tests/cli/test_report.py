"""report, as a user types it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from cgmcr2._files import write_json
from cgmcr2.cli import run
from cgmcr2.clustering import Clustering


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A finished run on 12 images."""
    photos = tmp_path / "photos"
    photos.mkdir()
    for number in range(12):
        Image.new("RGB", (8, 8), (number * 20, 0, 0)).save(photos / f"{number:02}.png")
    Z = np.random.default_rng(0).standard_normal((12, 4))
    Clustering([f"{i:02}.png" for i in range(12)], [0, 1, 2] * 4, embedding=Z).save(tmp_path / "run")
    write_json(tmp_path / "run" / "run.json", {"source": str(photos), "images": "..."})
    return tmp_path / "run"


def test_into_the_run_and_elsewhere(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("report", folder) == 0
    assert f"MB): {folder / 'report.html'}" in capsys.readouterr().out
    assert "12 images in 3 clusters" in (folder / "report.html").read_text(encoding="utf-8")
    assert run("report", folder, "-o", tmp_path / "page.html", "--map", "pca") == 0
    assert "PCA of the learned embedding" in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_mistakes_are_one_sentence(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, sentence in (
        (["report", tmp_path / "nowhere"], "There is no labels.csv in"),
        (["report", folder, "--map", "mds"], "There is no map called 'mds': choose"),
        (["report", folder, "--images", tmp_path / "gone"], "no file or folder"),
    ):
        assert run(*arguments) == 2
        error = capsys.readouterr().err
        assert sentence in error
        assert error.count("\n") == 1
