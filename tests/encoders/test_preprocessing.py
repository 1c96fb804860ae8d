"""Resizing, cropping and normalisation."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from PIL import Image

from cgmcr2.encoders.preprocessing import Preprocessing


@pytest.mark.parametrize(
    "size", [(1, 1), (3, 1), (224, 224), (500, 224), (225, 640), (31, 7000), (9000, 2), (1, 60_000)]
)
def test_output_shape_is_the_same_for_every_image(size: tuple[int, int]) -> None:
    pixels = Preprocessing()(Image.new("RGB", size, (10, 20, 30)))
    assert pixels.shape == (224, 224, 3)
    assert pixels.dtype == np.uint8
    assert (pixels == (10, 20, 30)).all()


def test_image_of_the_required_size_is_only_cropped(images: list[Image.Image]) -> None:
    image = images[0].crop((0, 0, 300, 224))
    np.testing.assert_array_equal(Preprocessing()(image), np.asarray(image)[:, 38:262])


def test_square_does_not_crop(images: list[Image.Image]) -> None:
    expected = images[0].resize((64, 64), Image.Resampling.BICUBIC)
    np.testing.assert_array_equal(Preprocessing(64, 64, square=True)(images[0]), np.asarray(expected))


def test_panorama_is_cropped_to_its_centre() -> None:
    panorama = np.zeros((20, 2000, 3), np.uint8)
    panorama[:, 1000:] = 255
    pixels = Preprocessing(20, 20)(Image.fromarray(panorama))
    assert (pixels[:, :10] == 0).all()
    assert (pixels[:, 10:] == 255).all()


def test_normalize() -> None:
    preprocessing = Preprocessing(2, 2, mean=(0.5, 0.25, 0.0), std=(0.5, 0.25, 1.0))
    batch = np.full((1, 2, 2, 3), 51, np.uint8)  # 0.2 of 255
    batch.setflags(write=False)
    result = preprocessing.normalize(batch, torch.device("cpu"))
    assert result.shape == (1, 2, 2, 3)
    torch.testing.assert_close(result[0, 0, 0], torch.tensor([-0.6, -0.2, 0.2]))
    assert (batch == 51).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"resize": 10, "crop": 20}, "crop must be from 1 to resize, but they are 20 and 10"),
        ({"std": (1.0, 0.0, 1.0)}, "std must be positive"),
        ({"mean": (1.0,)}, "must have three values"),
    ],
)
def test_invalid_parameters(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Preprocessing(**options)  # type: ignore[arg-type]
