"""Photos and clusters with names that are hard to export."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from cgmcr2.clustering import Clustering

FILES = ["a.png", "sub/a.png", "sub/a b, #1 & 2.png", "test-1.png", "雪.png", "caf\udce9.png", "out.png"]
NAMES = ['cats & "dogs"', "test", "nobody"]
LABELS = [0, 0, 1, 1, 0, 1]


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    folder = tmp_path / "photos"
    for number, name in enumerate(FILES):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (4 + number, 5), (30 * number, 0, 0)).save(folder / name)
    return folder


@pytest.fixture
def clustering() -> Clustering:
    c = Clustering(FILES, [*LABELS, 0], names=NAMES, confidence=np.full(7, 0.875))
    return c.exclude([6]).lock([1])
