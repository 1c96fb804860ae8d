"""Photographs of scikit-learn in different shapes."""

from __future__ import annotations

import pytest
from PIL import Image
from sklearn.datasets import load_sample_images


@pytest.fixture(scope="session")
def images() -> list[Image.Image]:
    """Seven RGB images of different sizes and aspect ratios."""
    china, flower = (Image.fromarray(array) for array in load_sample_images().images)
    return [
        china,
        flower,
        china.rotate(90, expand=True),
        flower.crop((100, 50, 350, 300)),
        china.resize((97, 61)),
        flower.crop((0, 0, 333, 227)),
        china.crop((0, 200, 640, 230)),
    ]
