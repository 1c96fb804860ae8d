"""Damaged run folders: no command crashes, and none silently gives another result. benchmarks/faults.py does more."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from cgmcr2.cli import run
from cgmcr2.encoders import register_encoder

from .fault_injection import MUTATIONS, files_of, inject

QUICK = [
    *("--encoder", "colours-of-faults"),
    *(
        "--set",
        "hidden_dim=8",
        "--set",
        "warmup_epochs=20",
        "--set",
        "finetune_epochs=10",
        "--set",
        "lr=0.01",
        "--set",
        "n_heads=1",
    ),
]


class Colours:
    """A fast encoder: the mean colour of each quarter of an image."""

    name, dim, fingerprint, image_size = "colours-of-faults", 12, "colours-1", 8

    def preprocess(self, image: Image.Image) -> np.ndarray[Any, Any]:
        return np.asarray(image.resize((2, 2), Image.Resampling.BOX), dtype=np.uint8)

    def encode(self, batch: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return batch.reshape(len(batch), 12).astype(np.float32) / 255 + 0.1


register_encoder("colours-of-faults", lambda **_: Colours())


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("photos")
    noise = np.random.default_rng(0)
    for number in range(24):
        pixels = noise.integers(0, 60, (16, 16, 3))
        pixels[..., number % 3] += 180
        Image.fromarray(pixels.astype(np.uint8)).save(folder / f"{number:02}.png")
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
