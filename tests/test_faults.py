"""Damaged run folders: no command crashes, and none silently gives another result. benchmarks/faults.py does more."""

from __future__ import annotations

from pathlib import Path

import pytest

from cgmcr2.cli import run

from .colours import write_photos
from .fault_injection import MUTATIONS, files_of, inject

SETTINGS = ("hidden_dim=8", "warmup_epochs=20", "finetune_epochs=10", "n_heads=1", "lr=0.01")
QUICK = ["--encoder", "colours", *(word for setting in SETTINGS for word in ("--set", setting))]


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = write_photos(tmp_path_factory.mktemp("images") / "photos", 24)
    (folder / "broken.jpg").write_text("not an image")
    return folder


@pytest.fixture(scope="module")
def finished(photos: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "run"
    assert run("cluster", photos, "-k", 3, "-o", folder, "-q", *QUICK) == 0
    return folder


def test_no_command_crashes_or_silently_changes_its_result(finished: Path, photos: Path, tmp_path: Path) -> None:
    files = files_of(finished)
    assert {"run.json", "labels.csv", "model/model.safetensors", "features/manifest.json"} < set(files)
    faults = [(file, MUTATIONS[number % len(MUTATIONS)], number) for number, file in enumerate(files)]
    assert list(inject(finished, photos, QUICK, tmp_path, faults)) == []
