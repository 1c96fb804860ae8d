"""predict as a user types it."""

from __future__ import annotations

import csv
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from cgmcr2.cli import run
from cgmcr2.clustering import Clustering


def test_features(features: Path, fitted: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("a.csv", "b.csv"):
        assert run("predict", fitted, features, "-o", tmp_path / name, "--part", "test") == 0
    assert f"100 labels: {tmp_path / 'b.csv'}" in capsys.readouterr().out
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "b.csv").read_bytes()
    assert run("predict", fitted, features, "-o", tmp_path / "train.csv", "--part", "train") == 0
    with (tmp_path / "train.csv").open(newline="") as file:
        labels = [int(row["cluster"]) for row in csv.DictReader(file)]
    assert labels == Clustering.load(fitted).labels.tolist()


def test_images(photo_run: Path, tmp_path: Path) -> None:
    new = tmp_path / "new"
    new.mkdir()
    Image.new("RGB", (20, 20), (230, 20, 30)).save(new / "red.png")
    assert run("predict", photo_run, new, "-o", tmp_path / "new.csv", "-q") == 0
    with (tmp_path / "new.csv").open(newline="") as file:
        (row,) = csv.DictReader(file)
    clustering = Clustering.load(photo_run)
    assert int(row["cluster"]) == clustering.labels[clustering.ids.index("00.png")]


def test_images_with_ray(photo_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The workers are replaced by this process; tests/features/test_ray_engine.py starts them."""
    options: dict[str, Any] = {}

    def write(writer: Any, encoder: Any, parts: Any, bar: Any, **values: Any) -> int:
        options.update(values)
        return int(writer.write(encoder, parts))

    monkeypatch.setattr("cgmcr2.features.ray_engine.write_with_ray", write)
    new = tmp_path / "new"
    new.mkdir()
    Image.new("RGB", (20, 20), (230, 20, 30)).save(new / "red.png")
    ray = ("--engine", "ray", "--address", "auto", "--workers", 3)
    assert run("predict", photo_run, new, "--no-cache", "-o", tmp_path / "ray.csv", "-q", *ray) == 0
    assert options == {"workers": 3, "address": "auto"}
    assert run("predict", photo_run, new, "--no-cache", "-o", tmp_path / "local.csv", "-q") == 0
    assert (tmp_path / "ray.csv").read_bytes() == (tmp_path / "local.csv").read_bytes()


def test_user_errors_are_one_sentence(fitted: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    X = np.zeros((4, 9), np.float32)
    np.savez(tmp_path / "other.npz", features=X, fingerprint="another")
    np.savez(tmp_path / "narrow.npz", features=X)
    for words, sentence in (
        ([tmp_path / "none", tmp_path / "narrow.npz"], "There is no folder"),
        ([fitted, tmp_path / "narrow.npz"], "has rows of 9 features"),
        ([fitted, tmp_path / "other.npz"], "made by another encoder (another)"),
        ([fitted, tmp_path], "was fitted on features, not on images"),
    ):
        assert run("predict", *words, "-o", tmp_path / "out.csv") == 2
        error = capsys.readouterr().err
        assert sentence in error
        assert error.count("\n") == 1
    assert not (tmp_path / "out.csv").exists()


def test_the_run_folder_is_never_written_to(
    fitted: Path,
    photo_run: Path,
    photos: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    before = {path: path.stat().st_mtime_ns for path in photo_run.rglob("*")}
    monkeypatch.chdir(photo_run)
    assert run("predict", ".", photos, "--cache", tmp_path / "cache", "-q") == 2
    assert "would be a file of the run folder itself" in capsys.readouterr().err
    assert run("predict", ".", photos, "--cache", tmp_path / "cache", "-o", tmp_path / "a.csv", "-q") == 0
    assert run("predict", ".", photos, "--no-cache", "-o", tmp_path / "b.csv", "-q") == 0
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "b.csv").read_bytes()
    assert before == {path: path.stat().st_mtime_ns for path in photo_run.rglob("*")}


def test_unreadable_files_are_listed_with_the_reason(
    photo_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    new = tmp_path / "new"
    new.mkdir()
    Image.new("RGB", (20, 20), (230, 20, 30)).save(new / "red.png")
    (new / "broken.jpg").write_text("not an image")
    assert run("predict", photo_run, new, "--no-cache", "-o", tmp_path / "new.csv", "-q") == 0
    assert "1 file could not be read" in capsys.readouterr().out
    with (tmp_path / "new.csv").open(newline="") as file:
        rows = {row["path"]: row for row in csv.DictReader(file)}
    assert rows["red.png"]["cluster"] != ""
    assert rows["red.png"]["error"] == ""
    assert rows["broken.jpg"]["cluster"] == ""
    assert "not an image" in rows["broken.jpg"]["error"]


PREDICT = """
import runpy, sys
runpy.run_path(sys.argv[1])
from cgmcr2.cli import run
assert run("predict", *sys.argv[2:4], "--no-cache", "-q", "-o", sys.argv[4]) == 0
print([name for name in ("torch", "torch._dynamo", "sklearn", "scipy", "pandas") if name in sys.modules])
"""


def test_prediction_of_images_starts_without_slow_imports(photo_run: Path, photos: Path, tmp_path: Path) -> None:
    encoder = Path(__file__).parents[1] / "colours.py"
    command = [sys.executable, "-c", PREDICT, *map(str, (encoder, photo_run, photos, tmp_path / "new.csv"))]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout.splitlines()[-1:] == ["['torch']"], done.stderr
