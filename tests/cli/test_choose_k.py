"""choose-k as a user types it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cgmcr2.cli import run


def test_features(four_groups: Path, quick: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("choose-k", four_groups, "-o", tmp_path / "run", "--most", 9, "-q") == 0
    output = capsys.readouterr().out
    assert "  <- chosen" in output
    assert "4 clusters fit best" in output
    saved = json.loads((tmp_path / "run" / "choice.json").read_text())["choice"]
    assert (saved["chosen"], saved["candidates"]) == (4, list(range(2, 10)))
    assert run("fit", four_groups, "-k", 4, "-o", tmp_path / "run", *quick) == 0  # in the same folder


def test_features_of_images_are_stored_for_the_run(
    photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    assert run("choose-k", photos, "-o", folder, "--encoder", "colours", "-q") == 0
    assert (folder / "features" / "manifest.json").exists()
    assert f"To cluster with this number, add: -k 3 -o {folder}" in capsys.readouterr().out


def test_user_errors_are_one_sentence(
    four_groups: Path, photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for words, sentence in (
        ([four_groups, "--most", 1], "at least 2, but is 1"),
        ([photos], "give a folder with -o"),
        ([tmp_path / "{0..1}.tar"], "give a folder with -o"),
        ([tmp_path / "none.npz"], "There is no file or folder"),
    ):
        assert run("choose-k", *words) == 2
        error = capsys.readouterr().err
        assert sentence in error
        assert error.count("\n") == 1
