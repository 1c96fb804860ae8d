"""The random augmentation of MoCo-v2 as in the paper's supplement, seeded by the image so that it is reproducible."""

from __future__ import annotations

import hashlib
import math

import numpy as np
from PIL import Image, ImageEnhance, ImageOps

MIN_CROP_AREA = 0.08  # fraction of the image
MAX_ASPECT_RATIO = 4 / 3  # of the crop


def random_view(image: Image.Image, size: int, rng: np.random.Generator) -> Image.Image:
    """Return a random view of size x size pixels, with the transformations of the paper's supplement.

    These are RandomResizedCrop(scale=(0.08, 1)), RandomHorizontalFlip(0.5),
    RandomApply(ColorJitter(0.4, 0.4, 0.4, 0.1), 0.8) and RandomGrayscale(0.2).

    >>> random_view(Image.new("RGB", (50, 40)), 32, np.random.default_rng(0)).size
    (32, 32)
    """
    box = _random_box(image.width, image.height, rng)
    view = image.resize((size, size), Image.Resampling.BILINEAR, box=box)
    if rng.random() < 0.5:
        view = ImageOps.mirror(view)
    if rng.random() < 0.8:
        view = _jitter_colour(view, rng)
    if rng.random() < 0.2:
        view = view.convert("L").convert("RGB")
    return view


def image_rng(image: Image.Image, seed: int) -> np.random.Generator:
    """Return a generator seeded by the pixels and ``seed``, so that views do not depend on run, order or thread.

    >>> image = Image.new("RGB", (4, 4))
    >>> bool(image_rng(image, 0).random() == image_rng(image.copy(), 0).random())
    True
    """
    digest = hashlib.sha256(f"{seed} {image.size} ".encode() + image.tobytes()).digest()
    return np.random.default_rng(int.from_bytes(digest[:16], "little"))


def _random_box(width: int, height: int, rng: np.random.Generator) -> tuple[int, int, int, int]:
    for _ in range(10):
        area = width * height * rng.uniform(MIN_CROP_AREA, 1.0)
        ratio = math.exp(rng.uniform(-math.log(MAX_ASPECT_RATIO), math.log(MAX_ASPECT_RATIO)))
        w, h = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < w <= width and 0 < h <= height:
            left, top = int(rng.integers(0, width - w + 1)), int(rng.integers(0, height - h + 1))
            return left, top, left + w, top + h
    # only long images need the fallback: the central crop, with the nearest permitted aspect ratio
    w, h = min(width, max(1, round(height * MAX_ASPECT_RATIO))), min(height, max(1, round(width * MAX_ASPECT_RATIO)))
    left, top = (width - w) // 2, (height - h) // 2
    return left, top, left + w, top + h


def _jitter_colour(view: Image.Image, rng: np.random.Generator) -> Image.Image:
    """Change brightness, contrast and saturation by factors from 0.6 to 1.4 and hue by up to 10 %, in random order."""
    factors = rng.uniform(0.6, 1.4, 3)
    hue = rng.uniform(-0.1, 0.1)
    enhancers = (ImageEnhance.Brightness, ImageEnhance.Contrast, ImageEnhance.Color)
    for step in rng.permutation(4):
        view = _shift_hue(view, hue) if step == 3 else enhancers[step](view).enhance(float(factors[step]))
    return view


def _shift_hue(view: Image.Image, shift: float) -> Image.Image:
    hue, saturation, value = view.convert("HSV").split()
    shifted = (np.asarray(hue).astype(np.int16) + round(shift * 255)) % 256
    return Image.merge("HSV", (Image.fromarray(shifted.astype(np.uint8)), saturation, value)).convert("RGB")
