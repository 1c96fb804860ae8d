"""report as a user types it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from cgmcr2.cli import run


def test_default_and_other_path(photo_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "run"
    shutil.copytree(photo_run, folder)
    (folder / "report.html").unlink()
    assert run("report", folder, "--map", "pca") == 0
    assert f"MB): {folder / 'report.html'}" in capsys.readouterr().out
    assert "60 images in" in (folder / "report.html").read_text(encoding="utf-8")
    assert run("report", folder, "-o", tmp_path / "page.html", "--map", "pca") == 0
    assert "PCA" in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_user_errors(photo_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words, sentence in (
        ([tmp_path / "none"], "There is no folder"),
        ([photo_run, "--images", tmp_path / "gone"], "are not in"),
    ):
        assert run("report", *words, "-o", tmp_path / "page.html") == 2
        error = capsys.readouterr().err
        assert sentence in error
        assert error.count("\n") == 1
    assert run("report", photo_run, "--map", "mds") == 2
    assert "'mds' is not one of 'auto', 'pca', 'tsne', 'umap'" in capsys.readouterr().err
