"""Small images, and a way to tell them apart."""

from __future__ import annotations

import io
from collections.abc import Callable

import pytest
from PIL import Image

from cgmcr2.images import Catalog, decode


@pytest.fixture(scope="session")
def png() -> Callable[..., bytes]:
    """PNG file of one colour with the given red value."""

    def encode(red: int = 0, size: tuple[int, int] = (5, 4)) -> bytes:
        file = io.BytesIO()
        Image.new("RGB", size, (red, 0, 0)).save(file, "PNG")
        return file.getvalue()

    return encode


@pytest.fixture
def red() -> Callable[[Catalog], list[int]]:
    """Red value of each image of a catalog."""
    return lambda catalog: [decode(item).getpixel((0, 0))[0] for item in catalog]  # type: ignore[index]
