"""Random augmentations of image batches, in torch on any device.

The random numbers of a batch are one matrix of uniforms, one row per image, drawn from (seed, step, view). Everything
else is a function of pixels and numbers, so neither resuming nor the number of processes changes an augmented image.
"""

from __future__ import annotations

import dataclasses
import math

import torch
from torch import Tensor

from cgmcr2._random import mix
from cgmcr2.encoders.preprocessing import CIFAR_MEAN, CIFAR_STD, IMAGENET_MEAN, IMAGENET_STD

from .settings import Settings

CROP_TRIES = 10  # as torchvision: areas and ratios that do not fit into the image are drawn again
BLUR_FROM = 64  # side of the images in pixels from which MoCo-v2's blur is used; CIFAR's are not blurred
LUMA = (0.299, 0.587, 0.114)  # weights of ITU-R 601-2, as in Pillow and torchvision
_FIELDS = ("left", "top", "flip", "jitter", "brightness", "contrast", "saturation", "hue", "grey", "blur", "sigma")
_ORDER = len(_FIELDS)  # first of the four columns whose ranks are the order of the colour changes
_AREAS = _ORDER + 4  # first of the columns of the crop tries
NUMBERS = _AREAS + 2 * CROP_TRIES  # random numbers per image


@dataclasses.dataclass(frozen=True)
class Augmentation:
    """Random view of images; the defaults are those of the paper's supplement (as NMCE and MoCo-v2).

    RandomResizedCrop, RandomHorizontalFlip, RandomApply(ColorJitter), RandomGrayscale, blur, normalisation: the
    operations of torchvision with the same distributions. The order of the four colour changes is random per image.

    >>> Augmentation(size=16)(torch.zeros(2, 32, 32, 3, dtype=torch.uint8), draw(2, seed=0, step=0)).shape
    torch.Size([2, 3, 16, 16])
    """

    size: int = 32  # side of the view in pixels
    scale: tuple[float, float] = (0.08, 1.0)  # area of the crop over that of the image
    ratio: tuple[float, float] = (3 / 4, 4 / 3)  # width over height of the crop
    flip: float = 0.5  # probability
    jitter: float = 0.8  # probability of the colour changes
    brightness: float = 0.4  # factors are drawn from 1 - x to 1 + x
    contrast: float = 0.4
    saturation: float = 0.4
    hue: float = 0.1  # largest shift, as a fraction of the colour circle
    grey: float = 0.2  # probability
    blur: float = 0.0  # probability
    sigma: tuple[float, float] = (0.1, 2.0)  # standard deviation of the blur in pixels
    mean: tuple[float, ...] = CIFAR_MEAN
    std: tuple[float, ...] = CIFAR_STD

    def __call__(self, images: Tensor, numbers: Tensor) -> Tensor:
        """Return views (b, 3, size, size) of uint8 images (b, H, W, 3), given ``numbers`` (b, NUMBERS) of `draw`."""
        numbers = numbers.to(images.device)
        u = dict(zip(_FIELDS, numbers.T, strict=False))
        pixels = images.permute(0, 3, 1, 2).float() / 255
        boxes = random_boxes(numbers, images.shape[1], images.shape[2], self.scale, self.ratio)
        pixels = crop_and_resize(pixels, boxes, self.size, u["flip"] < self.flip).clamp_(0, 1)
        self._jitter(pixels, numbers, u)
        pixels = _where(u["grey"] < self.grey, grey(pixels).expand_as(pixels), pixels)
        if self.blur > 0:
            low, high = self.sigma
            pixels = _where(u["blur"] < self.blur, gaussian_blur(pixels, low + (high - low) * u["sigma"]), pixels)
        return (pixels - pixels.new_tensor(self.mean)[:, None, None]) / pixels.new_tensor(self.std)[:, None, None]

    def _jitter(self, pixels: Tensor, numbers: Tensor, u: dict[str, Tensor]) -> None:
        """Change the colours of the chosen images in place, each in its order."""
        changes = (
            (adjust_brightness, 1 + self.brightness * (2 * u["brightness"] - 1)),
            (adjust_contrast, 1 + self.contrast * (2 * u["contrast"] - 1)),
            (adjust_saturation, 1 + self.saturation * (2 * u["saturation"] - 1)),
            (adjust_hue, self.hue * (2 * u["hue"] - 1)),
        )
        order = numbers[:, _ORDER : _ORDER + 4].argsort(dim=1)  # (b, 4), a uniformly random permutation
        order = order.masked_fill((u["jitter"] >= self.jitter)[:, None], -1)
        for position in range(4):
            for number, (change, amount) in enumerate(changes):
                rows = (order[:, position] == number).nonzero()[:, 0]
                if len(rows):
                    pixels[rows] = change(pixels[rows], amount[rows])


def default_augmentation(settings: Settings) -> Augmentation:
    """The paper's augmentation; small images have CIFAR's normalisation, large ones ImageNet's, and MoCo-v2's blur.

    >>> default_augmentation(Settings(size=32)).blur, default_augmentation(Settings(size=224)).blur
    (0.0, 0.5)
    """
    mean, std = (CIFAR_MEAN, CIFAR_STD) if settings.stem == 3 else (IMAGENET_MEAN, IMAGENET_STD)
    blur = 0.5 if settings.size >= BLUR_FROM else 0.0
    return Augmentation(size=settings.size, blur=blur, mean=mean, std=std)


def draw(n: int, *, seed: int, step: int, view: int = 0) -> Tensor:
    """The random numbers (n, NUMBERS) of a view of the whole batch of ``step``; processes take their rows of them.

    >>> torch.equal(draw(3, seed=0, step=7), draw(3, seed=0, step=7))
    True
    """
    generator = torch.Generator().manual_seed(mix(mix(seed, step), view))
    return torch.rand(n, NUMBERS, generator=generator)


def multi_crop(
    augmentation: Augmentation,
    *,
    n_local: int,
    local_size: int,
    global_scale: tuple[float, float] = (0.14, 1.0),
    local_scale: tuple[float, float] = (0.05, 0.14),
) -> tuple[Augmentation, ...]:
    """SwAV's multi-crop: two views of large crops, and ``n_local`` small ones of ``local_size`` pixels.

    >>> [view.size for view in multi_crop(Augmentation(), n_local=3, local_size=16)]
    [32, 32, 16, 16, 16]
    """
    large = dataclasses.replace(augmentation, scale=global_scale)
    small = dataclasses.replace(augmentation, scale=local_scale, size=local_size)
    return (large, large, *([small] * n_local))


def random_boxes(
    numbers: Tensor, height: int, width: int, scale: tuple[float, float], ratio: tuple[float, float]
) -> Tensor:
    """Boxes (b, 4) of random crops: left, top, width and height, in whole pixels.

    The first of ten random areas and ratios that fits into the image is used, as in torchvision; if none does, the
    largest central crop with an allowed ratio.
    """
    tries = numbers[:, _AREAS:].reshape(-1, 2, CROP_TRIES)  # (b, 2, 10)
    area = height * width * (scale[0] + (scale[1] - scale[0]) * tries[:, 0])
    low, high = math.log(ratio[0]), math.log(ratio[1])
    aspect = (low + (high - low) * tries[:, 1]).exp()
    w, h = (area * aspect).sqrt().round(), (area / aspect).sqrt().round()
    fits = (w > 0) & (w <= width) & (h > 0) & (h <= height)  # (b, 10)
    first = fits.int().argmax(1, keepdim=True)
    w, h = w.gather(1, first)[:, 0], h.gather(1, first)[:, 0]
    left = (numbers[:, _FIELDS.index("left")] * (width - w + 1)).floor()
    top = (numbers[:, _FIELDS.index("top")] * (height - h + 1)).floor()
    fallback_w, fallback_h = min(width, round(height * ratio[1])), min(height, round(width / ratio[0]))
    fallback = [(width - fallback_w) // 2, (height - fallback_h) // 2, fallback_w, fallback_h]
    boxes = torch.stack([left, top, w, h], dim=1)
    return _where(fits.any(1), boxes, boxes.new_tensor(fallback).expand_as(boxes))


def crop_and_resize(pixels: Tensor, boxes: Tensor, size: int, flip: Tensor) -> Tensor:
    """Resize the ``boxes`` (b, 4) of images (b, c, H, W) to squares, bilinear with antialiasing; mirror some.

    Both are linear along each axis, so they are one product with a matrix of weights per axis.
    """
    left, top, w, h = boxes.unbind(1)
    rows = _resize_weights(top, h, size, pixels.shape[2])
    columns = _resize_weights(left, w, size, pixels.shape[3])
    columns = _where(flip, columns.flip(1), columns)
    return _separable(pixels, rows, columns)


def gaussian_blur(pixels: Tensor, sigma: Tensor) -> Tensor:
    """Blur images (b, c, H, W) with standard deviations ``sigma`` (b,); the kernel is renormalised at the border."""

    def weights(side: int) -> Tensor:
        pixel = torch.arange(side, device=pixels.device, dtype=pixels.dtype)
        kernel = (-0.5 * ((pixel[:, None] - pixel) / sigma[:, None, None]).square()).exp()
        return kernel / kernel.sum(2, keepdim=True)

    return _separable(pixels, weights(pixels.shape[2]), weights(pixels.shape[3]))


def adjust_brightness(pixels: Tensor, factor: Tensor) -> Tensor:
    """Multiply images (b, 3, H, W) in [0, 1] by ``factor`` (b,)."""
    return (pixels * _per_image(factor)).clamp_(0, 1)


def adjust_contrast(pixels: Tensor, factor: Tensor) -> Tensor:
    """Scale the distance of images (b, 3, H, W) to their mean grey value by ``factor`` (b,)."""
    return _blend(pixels, grey(pixels).mean((2, 3), keepdim=True), factor)


def adjust_saturation(pixels: Tensor, factor: Tensor) -> Tensor:
    """Scale the distance of images (b, 3, H, W) to their grey version by ``factor`` (b,)."""
    return _blend(pixels, grey(pixels), factor)


def adjust_hue(pixels: Tensor, shift: Tensor) -> Tensor:
    """Rotate the hue of images (b, 3, H, W) in [0, 1] by ``shift`` (b,), a fraction of the colour circle."""
    red, green, blue = pixels.unbind(1)
    value = pixels.amax(1)
    chroma = value - pixels.amin(1)
    divisor = torch.where(chroma > 0, chroma, 1)
    hue = torch.where(
        value == red,
        (green - blue) / divisor,
        torch.where(value == green, 2 + (blue - red) / divisor, 4 + (red - green) / divisor),
    )
    hue = hue + 6 * shift[:, None, None]  # in sixths of the circle
    sixths = (hue[:, None] + hue.new_tensor([5, 3, 1])[:, None, None]) % 6  # (b, 3, H, W)
    return value[:, None] - chroma[:, None] * torch.minimum(sixths, 4 - sixths).clamp_(0, 1)


def grey(pixels: Tensor) -> Tensor:
    """The luma (b, 1, H, W) of images (b, 3, H, W)."""
    return (pixels * pixels.new_tensor(LUMA)[:, None, None]).sum(1, keepdim=True)


def _blend(pixels: Tensor, other: Tensor, factor: Tensor) -> Tensor:
    return (other + (pixels - other) * _per_image(factor)).clamp_(0, 1)


def _per_image(values: Tensor) -> Tensor:
    return values[:, None, None, None]


def _where(chosen: Tensor, yes: Tensor, no: Tensor) -> Tensor:
    """The rows of ``yes`` that are ``chosen`` (b,), the others of ``no``."""
    return torch.where(chosen.view(-1, *([1] * (yes.dim() - 1))), yes, no)


def _resize_weights(start: Tensor, length: Tensor, size: int, side: int) -> Tensor:
    """Weights (b, size, side) that resize the pixels from ``start`` (b,) over ``length`` (b,) to ``size`` pixels.

    A triangle around the centre of each new pixel, at least one old and one new pixel wide, as in Pillow.
    """
    start, length = start[:, None, None], length[:, None, None]
    step = length / size
    centre = start + (torch.arange(size, device=start.device)[:, None] + 0.5) * step
    old = torch.arange(side, device=start.device) + 0.5  # centres of the old pixels
    weights = (1 - (old - centre).abs() / step.clamp_min(1)).clamp_min(0)
    weights = weights * ((old > start) & (old < start + length))
    return weights / weights.sum(2, keepdim=True)


def _separable(pixels: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """``rows @ image @ columns'`` for every channel of every image (b, c, H, W)."""
    return rows[:, None] @ pixels @ columns[:, None].transpose(2, 3)
