"""Random views of images."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from cgmcr2.encoders.augmentation import _random_box, _shift_hue, image_rng, random_view


def test_views_depend_on_pixels_and_seed(images: list[Image.Image]) -> None:
    def view(image: Image.Image, seed: int) -> np.ndarray:
        return np.asarray(random_view(image, 32, image_rng(image, seed)))

    np.testing.assert_array_equal(view(images[0], 0), view(images[0].copy(), 0))
    assert not np.array_equal(view(images[0], 0), view(images[0], 1))
    other = images[0].copy()
    other.putpixel((5, 5), (1, 2, 3))
    assert not np.array_equal(view(images[0], 0), view(other, 0))


def test_area_and_aspect_ratio_of_the_crops() -> None:
    rng = np.random.default_rng(0)
    boxes = np.array([_random_box(400, 300, rng) for _ in range(2000)])
    width, height = boxes[:, 2] - boxes[:, 0], boxes[:, 3] - boxes[:, 1]
    assert (boxes >= 0).all()
    assert boxes[:, 2].max() <= 400
    assert boxes[:, 3].max() <= 300
    area = width * height / 120_000
    assert 0.075 < area.min() < 0.1
    assert area.max() > 0.9
    assert 0.74 < (width / height).min() < 0.76
    assert 1.32 < (width / height).max() < 1.35


@pytest.mark.parametrize("size", [(1, 1), (1, 50), (1000, 3)])
def test_images_of_any_shape(size: tuple[int, int]) -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        left, top, right, bottom = _random_box(*size, rng)
        assert 0 <= left < right <= size[0]
        assert 0 <= top < bottom <= size[1]
        assert random_view(Image.new("RGB", size), 32, rng).size == (32, 32)


def test_proportion_of_grey_views(images: list[Image.Image]) -> None:
    rng = np.random.default_rng(0)
    views = np.stack([np.asarray(random_view(images[1], 8, rng)) for _ in range(500)])
    grey = (np.ptp(views.astype(int), axis=-1) == 0).all((1, 2)).mean()
    assert 0.14 < grey < 0.26


def test_hue_shift_by_a_third_turns_red_into_green() -> None:
    shifted = np.asarray(_shift_hue(Image.new("RGB", (2, 2), (255, 0, 0)), 1 / 3))
    assert shifted[0, 0, 1] >= 250
    assert shifted[0, 0, 0] <= 10
