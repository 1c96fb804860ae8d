"""A fast image encoder and images for it, shared by tests and benchmarks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from cgmcr2.encoders import register_encoder


class Colours:
    """Encoder that returns the mean colour of each quarter of an image: enough to tell red from blue, and fast."""

    name, dim, fingerprint, image_size = "colours", 12, "colours-1", 8

    def preprocess(self, image: Image.Image) -> np.ndarray[Any, Any]:
        return np.asarray(image.resize((2, 2), Image.Resampling.BOX), dtype=np.uint8)

    def encode(self, batch: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return batch.reshape(len(batch), 12).astype(np.float32) / 255 + 0.1


register_encoder("colours", lambda **_: Colours())

QUICK: dict[str, Any] = {"hidden_dim": 16, "warmup_epochs": 20, "finetune_epochs": 10, "n_heads": 1, "lr": 0.01}


def write_photos(folder: Path, count: int) -> Path:
    """Write ``count`` reddish, greenish and bluish images to a new folder, and return it."""
    folder.mkdir()
    noise = np.random.default_rng(0)
    for number in range(count):
        pixels = noise.integers(0, 60, (16, 16, 3))
        pixels[..., number % 3] += 180
        Image.fromarray(pixels.astype(np.uint8)).save(folder / f"{number:02}.png")
    return folder
