"""Preprocessing of images: resize, crop and normalise."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)
CIFAR_MEAN = (0.4914, 0.4822, 0.4465)
CIFAR_STD = (0.2023, 0.1994, 0.2010)

_MAX_ASPECT_RATIO = 4  # longer images are cropped before resizing, since only the central square is used


@dataclass(frozen=True)
class Preprocessing:
    """Resize, crop and normalise: ``(x / scale - mean) / std``.

    Parameters
    ----------
    resize : int
        Length of the shorter side after resizing.
    crop : int
        Side of the central square.
    square : bool
        Resize both sides to ``resize``, ignoring the aspect ratio.
    resample : int
        Interpolation, a value of ``PIL.Image.Resampling``.
    scale : float
        Pixel value that corresponds to 1.
    mean, std : tuple of 3 floats
        Mean and standard deviation of the channels.

    Examples
    --------
    >>> Preprocessing(resize=8, crop=8)(Image.new("RGB", (20, 10))).shape
    (8, 8, 3)
    """

    resize: int = 224
    crop: int = 224
    square: bool = False
    resample: int = int(Image.Resampling.BICUBIC)
    scale: float = 255.0
    mean: tuple[float, ...] = IMAGENET_MEAN
    std: tuple[float, ...] = IMAGENET_STD

    def __post_init__(self) -> None:
        if not 1 <= self.crop <= self.resize:
            raise ValueError(f"crop must be from 1 to resize, but they are {self.crop} and {self.resize}.")
        if len(self.mean) != 3 or len(self.std) != 3 or not all(value > 0 for value in self.std):
            raise ValueError(
                f"mean and std must have three values, and std must be positive, got mean={self.mean}, std={self.std}."
            )

    @property
    def shape(self) -> tuple[int, int, int]:
        return (self.crop, self.crop, 3)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    def __call__(self, image: Image.Image) -> npt.NDArray[np.uint8]:
        """Resize and crop an RGB image to uint8 of shape (crop, crop, 3)."""
        resample = Image.Resampling(self.resample)
        if self.square:
            image = image.resize((self.resize, self.resize), resample)
        else:
            image = _resize_shorter_side(image, self.resize, resample)
        width, height = image.size
        left, top = (width - self.crop) // 2, (height - self.crop) // 2
        return np.array(image.crop((left, top, left + self.crop, top + self.crop)))

    def normalize(self, batch: npt.NDArray[np.uint8], device: torch.device) -> torch.Tensor:
        """Normalise uint8 images (n, h, w, 3) to a float32 tensor of the same shape."""
        x = torch.from_numpy(np.require(batch, requirements=["C", "W"])).to(device).float()
        mean = torch.tensor(self.mean, device=device) * self.scale
        std = torch.tensor(self.std, device=device) * self.scale
        return x.sub_(mean).div_(std)


def _resize_shorter_side(image: Image.Image, size: int, resample: Image.Resampling) -> Image.Image:
    short, long = sorted(image.size)
    if long > _MAX_ASPECT_RATIO * short:
        width, height = (min(side, _MAX_ASPECT_RATIO * short) for side in image.size)
        left, top = (image.width - width) // 2, (image.height - height) // 2
        image = image.crop((left, top, left + width, top + height))
        long = _MAX_ASPECT_RATIO * short
    if short == size:
        return image
    long = int(size * long / short)
    return image.resize((size, long) if image.width <= image.height else (long, size), resample)
