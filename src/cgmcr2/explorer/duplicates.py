"""Choose the image to keep of each group of near-duplicates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from PIL import Image

from cgmcr2.images import decode
from cgmcr2.images.catalog import ImageItem

SIDE = 512  # pixels to which images are scaled before their sharpness is measured, so that sizes do not matter
SIMILAR_SHARPNESS = 0.9  # from this ratio to the sharpest image on, an image counts as equally sharp


class Quality(NamedTuple):
    """Size and sharpness of an image; zeros if it cannot be read."""

    width: int = 0
    height: int = 0
    sharpness: float = 0.0


def image_quality(item: ImageItem) -> Quality:
    """Width, height, and sharpness: the variance of the Laplacian of the grey image, scaled to ``SIDE`` pixels."""
    try:
        with item.open() as file:
            width, height = file.size
        image = decode(item, size=SIDE)
    except Exception:  # damaged images raise nearly any type; the page shows them without a size
        return Quality()
    if (width > height) != (image.width > image.height):
        width, height = height, width  # the file is rotated
    return Quality(width, height, round(sharpness(image), 2))


def sharpness(image: Image.Image) -> float:
    """Variance of the Laplacian of the grey image, scaled such that its longer side has ``SIDE`` pixels.

    >>> flat, stripes = Image.new("L", (64, 64)), Image.fromarray(np.tile(np.uint8([0, 255]), (64, 32)))
    >>> sharpness(flat), sharpness(stripes) > 100
    (0.0, True)
    """
    scale = SIDE / max(image.size)
    size = (max(3, round(image.width * scale)), max(3, round(image.height * scale)))
    grey = np.asarray(image.convert("L").resize(size, Image.Resampling.BICUBIC), dtype=np.float32)
    laplacian = grey[1:-1, :-2] + grey[1:-1, 2:] + grey[:-2, 1:-1] + grey[2:, 1:-1] - 4 * grey[1:-1, 1:-1]
    return float(laplacian.var())


def best_image(qualities: Sequence[Quality]) -> int:
    """Index of the image to keep: the one with most pixels among those that are about as sharp as the sharpest.

    >>> best_image([Quality(400, 300, 95), Quality(4000, 3000, 100), Quality(4000, 3000, 20)])
    1
    """
    limit = SIMILAR_SHARPNESS * max(quality.sharpness for quality in qualities)
    return max(
        range(len(qualities)),
        key=lambda index: (
            qualities[index].sharpness >= limit,
            qualities[index].width * qualities[index].height,
            qualities[index].sharpness,
        ),
    )
