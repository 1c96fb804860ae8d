"""export, as a user types it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from PIL import Image

from cgmcr2._files import write_json
from cgmcr2.cli import run
from cgmcr2.clustering import Clustering


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A finished run on 4 images."""
    photos = tmp_path / "photos"
    photos.mkdir()
    for number in range(4):
        Image.new("RGB", (8, 8), (number * 20, 0, 0)).save(photos / f"{number}.png")
    Clustering([f"{i}.png" for i in range(4)], [0, 1, 0, 1], names=["red", "dark/red"]).save(tmp_path / "run")
    write_json(tmp_path / "run" / "run.json", {"source": str(photos)})
    return tmp_path / "run"


def test_folders_are_the_default(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    assert run("export", folder, "-o", out) == 0
    assert f"4 images in 2 clusters: {out}" in capsys.readouterr().out
    assert sorted(str(path.relative_to(out)) for path in out.rglob("*.png")) == [
        "dark-red/1.png",
        "dark-red/3.png",
        "red/0.png",
        "red/2.png",
    ]
    assert (tmp_path / "photos" / "0.png").is_file()


def test_links_and_tables(folder: Path, tmp_path: Path) -> None:
    assert run("export", folder, "--to", "imagefolder", "--link", "symlink", "-o", tmp_path / "train") == 0
    assert (tmp_path / "train" / "00-red" / "0.png").is_symlink()
    assert run("export", folder, "--to", "json", "-o", tmp_path / "t.json") == 0
    assert len(json.loads((tmp_path / "t.json").read_text())["images"]) == 4


def test_a_table_does_not_need_the_images(folder: Path, tmp_path: Path) -> None:
    shutil.rmtree(tmp_path / "photos")
    assert run("export", folder, "--to", "csv", "-o", tmp_path / "t.csv") == 0


def test_what_is_missing_is_named_and_the_exit_says_so(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "photos" / "1.png").unlink()
    assert run("export", folder, "-o", tmp_path / "out") == 1
    captured = capsys.readouterr()
    assert "3 images in 2 clusters" in captured.out
    assert "1 could not be exported:\n  '1.png': not found in" in captured.err


def test_mistakes_are_one_sentence(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "there").mkdir()
    for arguments, sentence in (
        ([folder, "-o", tmp_path / "there"], "exists already, and an export overwrites nothing"),
        ([folder, "--to", "xlsx", "-o", tmp_path / "x"], "choose of folders, imagefolder, csv"),
        ([folder, "--link", "move", "-o", tmp_path / "x"], "'move'"),
        ([tmp_path / "there", "-o", tmp_path / "x"], "There is no labels.csv in"),
        ([folder, "--images", tmp_path / "gone", "-o", tmp_path / "x"], "no file or folder"),
    ):
        assert run("export", *arguments) == 2
        error = capsys.readouterr().err
        assert sentence in error
        assert error.count("\n") == 1
