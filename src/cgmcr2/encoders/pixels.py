"""Resize, crop and normalise: the part of preprocessing that the encoders share, exact to what PIL computes."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)

# Of a panorama only the central square is seen, so nothing beyond four times the shorter side need be resized.
_LONGEST = 4


@dataclass(frozen=True)
class Preprocessing:
    """How pixels become network input: ``((resize and crop)(x) / scale - mean) / std``.

    ``resize`` is the length of the shorter side; with ``square`` both sides are resized to it and nothing is cut off.
    ``crop`` is the side of the central square that is kept.

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
            raise ValueError(
                f"Images cannot be resized to {self.resize} and then cropped to {self.crop} pixels: crop <= resize."
            )
        if len(self.mean) != 3 or len(self.std) != 3 or not all(value > 0 for value in self.std):
            raise ValueError(
                f"Three means and three positive deviations are needed, got mean={self.mean}, std={self.std}."
            )

    @property
    def shape(self) -> tuple[int, int, int]:
        return (self.crop, self.crop, 3)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    def __call__(self, image: Image.Image) -> npt.NDArray[np.uint8]:
        """RGB image -> uint8 (crop, crop, 3)."""
        resample = Image.Resampling(self.resample)
        if self.square:
            image = image.resize((self.resize, self.resize), resample)
        else:
            image = _shorter_side(image, self.resize, resample)
        width, height = image.size
        left, top = (width - self.crop) // 2, (height - self.crop) // 2
        return np.array(image.crop((left, top, left + self.crop, top + self.crop)))

    def normalize(self, batch: npt.NDArray[np.uint8], device: torch.device) -> torch.Tensor:
        """uint8 (n, h, w, 3) -> float32 (n, h, w, 3), normalised."""
        x = torch.from_numpy(np.require(batch, requirements=["C", "W"])).to(device).float()
        mean = torch.tensor(self.mean, device=device) * self.scale
        std = torch.tensor(self.std, device=device) * self.scale
        return x.sub_(mean).div_(std)


def _shorter_side(image: Image.Image, size: int, resample: Image.Resampling) -> Image.Image:
    short, long = sorted(image.size)
    if long > _LONGEST * short:
        width, height = (min(side, _LONGEST * short) for side in image.size)
        left, top = (image.width - width) // 2, (image.height - height) // 2
        image = image.crop((left, top, left + width, top + height))
        long = _LONGEST * short
    if short == size:
        return image
    long = int(size * long / short)
    return image.resize((size, long) if image.width <= image.height else (long, size), resample)
