"""embed as a user types it."""

from __future__ import annotations

import csv
import json
import os
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

import cgmcr2.encoders
from cgmcr2.cli import run
from cgmcr2.features import FeatureStore


@pytest.fixture
def photos(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Twelve images, and a fast encoder in place of all others."""
    for number in range(12):
        (tmp_path / "photos" / str(number % 3)).mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (8, 8), (number, 0, 0)).save(tmp_path / "photos" / str(number % 3) / f"{number}.png")

    def load_encoder(name: str) -> SimpleNamespace:
        return SimpleNamespace(
            name=name,
            fingerprint=f"fingerprint-of-{name}",
            dim=3,
            image_size=8,
            preprocess=np.asarray,
            encode=lambda batch: batch.mean(axis=(1, 2)).astype(np.float32),
        )

    monkeypatch.setattr(cgmcr2.encoders, "load_encoder", load_encoder, raising=False)
    return tmp_path / "photos"


def test_counts_and_the_store(photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("embed", photos, "-o", tmp_path / "store") == 0
    out = capsys.readouterr().out
    assert "12 images, 12 new, " in out
    assert "images/s" in out
    assert str(tmp_path / "store") in out
    assert not (tmp_path / "store" / "errors.csv").exists()
    assert FeatureStore.open(tmp_path / "store").shape == (12, 3)
    assert run("embed", photos, "-o", tmp_path / "store", "--batch-size", 2, "--workers", 1) == 0
    assert "12 images, 0 new: " in capsys.readouterr().out


def test_unreadable_files_are_listed_until_they_are_removed(
    photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (photos / os.fsdecode(b"caf\xe9\n.jpg")).write_bytes(b"")
    os.mkfifo(photos / "pipe.jpg")
    assert run("embed", photos, "-o", tmp_path / "store") == 0
    assert f"2 files could not be read: {tmp_path / 'store' / 'errors.csv'}" in capsys.readouterr().out
    with open(tmp_path / "store" / "errors.csv", encoding="utf-8", newline="") as file:
        assert list(csv.reader(file)) == [
            ["path", "reason"],
            ["pipe.jpg", "a FIFO, not a file"],
            ["caf\\udce9\n.jpg", "the file is empty"],
        ]
    for name in (b"caf\xe9\n.jpg", b"pipe.jpg"):
        (photos / os.fsdecode(name)).unlink()
    assert run("embed", photos, "-o", tmp_path / "store") == 0
    assert not (tmp_path / "store" / "errors.csv").exists()


def test_unreadable_files_are_tried_again_on_request(
    photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    size = (photos / "0" / "3.png").stat().st_size
    image = (photos / "0" / "3.png").read_bytes()
    (photos / "broken.png").write_bytes(bytes(size))
    os.utime(photos / "broken.png", ns=(0, 0))
    assert run("embed", photos, "-o", tmp_path / "store") == 0
    (photos / "broken.png").write_bytes(image)
    os.utime(photos / "broken.png", ns=(0, 0))
    assert run("embed", photos, "-o", tmp_path / "store") == 0
    assert "12 images, 0 new" in capsys.readouterr().out
    assert run("embed", photos, "-o", tmp_path / "store", "--retry-errors") == 0
    assert "13 images, 1 new" in capsys.readouterr().out
    assert not (tmp_path / "store" / "errors.csv").exists()


def test_shards(photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    embed = ("embed", photos, "-o", tmp_path / "store", "--shard-size", 5)
    assert run(*embed, "--shards", "1-9") == 0
    out = capsys.readouterr().out
    assert "7 images, 7 new" in out
    assert "The store is unfinished: 5 images of other shards missing." in out
    assert run(*embed, "--shards", "0", "--json") == 0
    assert json.loads(capsys.readouterr().out)["complete"] is True
    assert run(*embed, "--shards", "1-2", "--overwrite") == 0
    assert "12 images, 7 new" in capsys.readouterr().out
    assert FeatureStore.open(tmp_path / "store").shape == (12, 3)
    assert run(*embed, "--shards", "first") == 2
    assert "'first' is neither a number nor a range such as 0-99" in " ".join(capsys.readouterr().err.split())


def test_a_store_inside_the_image_folder_is_skipped(photos: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(2):
        assert run("embed", photos, "-o", photos / "store", "--dtype", "float16") == 0
        out = capsys.readouterr().out
        assert "12 images" in out
        assert "could not be read" not in out


def test_user_errors_are_one_sentence(photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("embed", photos, "-o", tmp_path / "store") == 0
    (tmp_path / "empty").mkdir()
    for arguments, expected in (
        ((photos, "-o", tmp_path / "store", "--encoder", "other"), "fingerprint-of-bundled"),
        ((tmp_path / "empty", "-o", tmp_path / "new"), "No image was found"),
        ((tmp_path / "absent", "-o", tmp_path / "new"), "There is no file or folder"),
        ((photos, "-o", photos), "The output folder cannot be the image folder"),
        ((photos, "-o", tmp_path / "new", "--batch-size", 0), "batch_size must be"),
    ):
        capsys.readouterr()
        assert run("embed", *arguments) == 2
        error = capsys.readouterr().err
        assert expected in error
        assert error.count("\n") == 1
    assert not (tmp_path / "new").exists()
