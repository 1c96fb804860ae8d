"""Each augmentation against Pillow, colorsys, SciPy or a formula in NumPy."""

from __future__ import annotations

import colorsys
import dataclasses
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image, ImageEnhance
from scipy.ndimage import gaussian_filter

from cgmcr2.pretrain.augment import (
    _FIELDS,
    NUMBERS,
    Augmentation,
    adjust_brightness,
    adjust_contrast,
    adjust_hue,
    adjust_saturation,
    crop_and_resize,
    default_augmentation,
    draw,
    gaussian_blur,
    multi_crop,
    random_boxes,
)
from cgmcr2.pretrain.imc_swav import InformationSwav
from cgmcr2.pretrain.settings import Settings

PLAIN = Augmentation(scale=(1, 1), ratio=(1, 1), flip=0, jitter=0, grey=0, blur=0, mean=(0,) * 3, std=(1,) * 3)


@pytest.fixture(scope="module")
def images() -> torch.Tensor:
    """Smooth random images, uint8 (4, 40, 48, 3)."""
    coarse = np.random.default_rng(0).integers(0, 256, (4, 6, 7, 3), dtype=np.uint8)
    return torch.from_numpy(np.stack([np.asarray(Image.fromarray(x).resize((48, 40))) for x in coarse]))


def pixels_of(images: torch.Tensor) -> torch.Tensor:
    return images.permute(0, 3, 1, 2).float() / 255


def as_uint8(pixels: torch.Tensor) -> np.ndarray[Any, Any]:
    return (255 * pixels).round().permute(0, 2, 3, 1).numpy()


@pytest.mark.parametrize("box", [(3, 5, 10, 8), (0, 0, 48, 40), (20, 0, 28, 40), (47, 39, 1, 1)])
@pytest.mark.parametrize("size", [16, 32])
def test_crop_and_resize_is_pillows(images: torch.Tensor, box: tuple[int, ...], size: int) -> None:
    left, top, w, h = box
    flip = torch.tensor([False, True, False, True])
    boxes = torch.tensor(box, dtype=torch.float32).expand(4, 4)
    result = as_uint8(crop_and_resize(pixels_of(images), boxes, size, flip))
    for image, mirrored, view in zip(images.numpy(), flip, result, strict=True):
        crop = Image.fromarray(image).crop((left, top, left + w, top + h))
        expected = np.asarray(crop.resize((size, size), Image.Resampling.BILINEAR)).astype(float)
        np.testing.assert_allclose(view, expected[:, ::-1] if mirrored else expected, atol=1.01)


def test_boxes_are_those_of_torchvision() -> None:
    """The loop of torchvision's RandomResizedCrop, with the same random numbers."""
    numbers = draw(300, seed=0, step=0).double()
    for height, width in ((32, 32), (40, 300)):  # the second seldom has room for large crops: fallback
        boxes = random_boxes(numbers, height, width, (0.5, 1.0), (3 / 4, 4 / 3))
        for u, box in zip(numbers.numpy(), boxes.tolist(), strict=True):
            tries = u[-20:].reshape(2, 10)
            for area, ratio in zip(height * width * (0.5 + 0.5 * tries[0]), tries[1], strict=True):
                aspect = np.exp(np.log(3 / 4) + ratio * (np.log(4 / 3) - np.log(3 / 4)))
                w, h = round(np.sqrt(area * aspect)), round(np.sqrt(area / aspect))
                if 0 < w <= width and 0 < h <= height:
                    expected = [int(u[0] * (width - w + 1)), int(u[1] * (height - h + 1)), w, h]
                    break
            else:
                w, h = (width, height) if width / height < 4 / 3 else (round(height * 4 / 3), height)
                expected = [(width - w) // 2, (height - h) // 2, w, h]
            assert box == expected


@pytest.mark.parametrize(
    ("change", "enhancer"),
    [
        (adjust_brightness, ImageEnhance.Brightness),
        (adjust_contrast, ImageEnhance.Contrast),
        (adjust_saturation, ImageEnhance.Color),
    ],
)
def test_colour_changes_are_pillows(images: torch.Tensor, change: Any, enhancer: Any) -> None:
    factors = torch.tensor([0.6, 0.9, 1.0, 1.4])
    result = as_uint8(change(pixels_of(images), factors))
    for image, factor, view in zip(images.numpy(), factors, result, strict=True):
        expected = np.asarray(enhancer(Image.fromarray(image)).enhance(float(factor))).astype(float)
        np.testing.assert_allclose(view, expected, atol=2.01)  # Pillow rounds the grey value, and truncates


@pytest.mark.parametrize("shift", [-0.1, 0.0, 0.07, 0.5])
def test_hue_is_that_of_colorsys(shift: float) -> None:
    colours = np.random.default_rng(1).random((3, 5, 5))
    colours[:, 0] = [[0.0, 1.0, 0.3, 0.3, 0.7], [0.0, 1.0, 0.3, 0.7, 0.7], [0.0, 1.0, 0.3, 0.7, 0.3]]  # ties
    result = adjust_hue(torch.from_numpy(colours)[None], torch.tensor([shift], dtype=torch.float64))[0]
    for row, column in np.ndindex(5, 5):
        h, s, v = colorsys.rgb_to_hsv(*colours[:, row, column])
        np.testing.assert_allclose(result[:, row, column], colorsys.hsv_to_rgb((h + shift) % 1, s, v), atol=1e-9)


def test_blur_is_a_gaussian(images: torch.Tensor) -> None:
    sigma = torch.tensor([0.1, 0.7, 1.3, 2.0], dtype=torch.float64)
    pixels = pixels_of(images).double()
    result = gaussian_blur(pixels, sigma)
    for image, s, view in zip(pixels, sigma.tolist(), result, strict=True):
        blurred = [gaussian_filter(channel.numpy(), s, mode="constant", truncate=9) for channel in image]
        weight = gaussian_filter(np.ones(image.shape[1:]), s, mode="constant", truncate=9)
        np.testing.assert_allclose(view, np.stack(blurred) / weight, atol=1e-6)


def test_normalisation_and_grey(images: torch.Tensor) -> None:
    square = images[:, :, :40]
    numbers = draw(4, seed=0, step=0)
    grey = dataclasses.replace(PLAIN, size=40, grey=1, mean=(0.1, 0.2, 0.3), std=(0.5, 0.6, 0.7))(square, numbers)
    for image, view in zip(square.numpy(), grey.numpy(), strict=True):
        luma = image @ np.array([0.299, 0.587, 0.114]) / 255
        for channel, (mean, std) in enumerate(((0.1, 0.5), (0.2, 0.6), (0.3, 0.7))):
            np.testing.assert_allclose(view[channel], (luma - mean) / std, atol=1e-5)
    np.testing.assert_allclose(as_uint8(dataclasses.replace(PLAIN, size=40)(square, numbers)), square, atol=1e-3)


def test_the_colour_changes_are_applied_in_the_order_of_the_numbers(images: torch.Tensor) -> None:
    square = images[:2, :, :40]
    numbers = draw(2, seed=3, step=0)
    orders = [[2, 0, 3, 1], [1, 3, 0, 2]]  # saturation, brightness, hue, contrast; and another
    first = len(_FIELDS)
    for row, order in enumerate(orders):
        for position, change in enumerate(order):
            numbers[row, first + change] = position / 4
    views = dataclasses.replace(PLAIN, size=40, jitter=1)(square, numbers)
    changes = (adjust_brightness, adjust_contrast, adjust_saturation, adjust_hue)
    amounts = [numbers[:, _FIELDS.index(name)] for name in ("brightness", "contrast", "saturation", "hue")]
    for row, order in enumerate(orders):
        expected = pixels_of(square)[row : row + 1]
        for change in order:
            u = amounts[change][row : row + 1]
            expected = changes[change](expected, 0.1 * (2 * u - 1) if change == 3 else 1 + 0.4 * (2 * u - 1))
        torch.testing.assert_close(views[row : row + 1], expected, rtol=0, atol=1e-5)


def test_proportions_of_flip_jitter_and_grey() -> None:
    image = torch.zeros(1, 8, 8, 3, dtype=torch.uint8)
    image[:, :, :4] = torch.tensor([200, 100, 50], dtype=torch.uint8)
    many, numbers = image.expand(3000, -1, -1, -1), draw(3000, seed=0, step=0)

    def share(**options: float) -> float:
        view = dataclasses.replace(PLAIN, size=8, **options)
        return float(
            (view(many, numbers) != view(image, torch.ones(1, NUMBERS) * 0.999)).flatten(1).any(1).float().mean()
        )

    assert share(flip=0.5) == pytest.approx(0.5, abs=0.03)
    assert share(jitter=0.8) == pytest.approx(0.8, abs=0.03)
    assert share(grey=0.2) == pytest.approx(0.2, abs=0.03)


def test_blur_is_for_large_images_only() -> None:
    rng = np.random.default_rng(0)
    for size, blurred in ((32, 0.0), (64, 0.5)):
        images = torch.from_numpy(rng.integers(0, 256, (1, size, size, 3), dtype=np.uint8)).expand(200, -1, -1, -1)
        blur = default_augmentation(Settings(size=size)).blur
        views = dataclasses.replace(PLAIN, size=size, blur=blur, sigma=(1, 1))(images, draw(200, seed=0, step=0))
        changed = ((views - pixels_of(images)).abs().amax((1, 2, 3)) > 0.1).float().mean()
        assert float(changed) == pytest.approx(blurred, abs=0.1)


def test_blur_depends_on_the_size_of_the_images_not_of_the_view() -> None:
    model = InformationSwav(torch.nn.Flatten(), 3, 2, local_views=1)
    for size, blur in ((32, 0.0), (64, 0.5)):
        views = model.augmentations(default_augmentation(Settings(size=size)))
        assert [view.blur for view in views] == [blur] * 3
        assert views[0].size < 64


def test_a_part_of_the_batch_has_the_views_of_the_whole(images: torch.Tensor) -> None:
    numbers = draw(4, seed=5, step=9)
    augment = Augmentation(size=16)
    torch.testing.assert_close(augment(images[2:], numbers[2:]), augment(images, numbers)[2:], rtol=0, atol=1e-5)
    assert not torch.equal(numbers, draw(4, seed=5, step=10))
    assert not torch.equal(numbers, draw(4, seed=5, step=9, view=1))
    assert not torch.equal(numbers, draw(4, seed=6, step=9))


def test_multi_crop(images: torch.Tensor) -> None:
    views = multi_crop(Augmentation(size=24), n_local=2, local_size=12, local_scale=(0.05, 0.2))
    assert [view(images, draw(4, seed=0, step=0)).shape[-1] for view in views] == [24, 24, 12, 12]
    assert views[0].scale[0] > views[2].scale[0]
