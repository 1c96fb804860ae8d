"""Settings of the training loop, which all methods share."""

from __future__ import annotations

import dataclasses
import math
from typing import Literal, get_args

OptimizerName = Literal["sgd", "adam"]


@dataclasses.dataclass(frozen=True)
class Settings:
    """Settings of a pretraining; the defaults are those of the authors of MoCo for CIFAR-10."""

    size: int = 32  # side of the images in pixels; larger ones are resized and cropped to the central square
    width: int = 64  # channels of the first layer of the ResNet-18; 16 takes a sixteenth of the time
    epochs: float = 200.0  # passes over all images
    batch_size: int = 256  # images per step
    optimizer: OptimizerName = "sgd"  # SGD with momentum 0.9, or Adam
    lr: float = 0.03  # learning rate; cosine annealing to 0
    weight_decay: float = 5e-4
    warmup_epochs: float = 0.0  # linear increase of the learning rate

    def __post_init__(self) -> None:
        self._require("size", self.size >= 8, "at least 8 pixels")
        self._require("width", self.width >= 1, "at least 1")
        self._require("batch_size", self.batch_size >= 2, "at least 2, because BatchNorm needs more than one image")
        self._require("optimizer", self.optimizer in get_args(OptimizerName), "sgd or adam")
        for name in ("epochs", "lr"):
            self._require(name, 0 < getattr(self, name) < math.inf, "a number above 0")
        for name in ("weight_decay", "warmup_epochs"):
            self._require(name, 0 <= getattr(self, name) < math.inf, "a number of at least 0")

    @property
    def stem(self) -> int:
        """Kernel of the first convolution of the ResNet: CIFAR's for less than 64 pixels, else ImageNet's."""
        return 3 if self.size < 64 else 7

    def learning_rate(self, step: int, steps_per_epoch: int, total_steps: int) -> float:
        """Linear warm-up, then cosine annealing to 0; a function of the step only.

        >>> settings = Settings(lr=1.0, warmup_epochs=1)
        >>> [round(settings.learning_rate(step, 2, 6), 3) for step in range(6)]
        [0.5, 1.0, 1.0, 0.854, 0.5, 0.146]
        """
        warmup = min(round(self.warmup_epochs * steps_per_epoch), total_steps - 1)
        if step < warmup:
            return self.lr * (step + 1) / warmup
        return self.lr * 0.5 * (1 + math.cos(math.pi * (step - warmup) / (total_steps - warmup)))

    def _require(self, name: str, holds: bool, needed: str) -> None:
        if not holds:
            raise ValueError(f"{name} must be {needed}, but is {getattr(self, name)!r}.")
