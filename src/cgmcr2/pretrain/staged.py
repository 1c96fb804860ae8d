"""Image clustering in stages: pretraining of the network, then stages that start from it."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor, nn

from cgmcr2._random import mix, seeded
from cgmcr2.encoders.pretrained import PretrainedEncoder, read_pretrained_config

from .augment import Augmentation
from .clusterer import ClusteringMethod, ImageClusterer
from .registry import convert, resolve
from .settings import Settings

if TYPE_CHECKING:
    from typing_extensions import Self

    from .images import Images


@dataclass(kw_only=True, eq=False, repr=False)
class StagedClusterer(ImageClusterer):
    """Base class of methods whose network is pretrained.

    ``settings`` are those of the last stage; size, width and batch size are also those of the pretraining.

    Parameters
    ----------
    encoder : str, optional
        Folder of an encoder trained by ``cgmcr2 pretrain``, which replaces the pretraining.
    pretrain_epochs : float
        Epochs of the pretraining.
    """

    pretraining: ClassVar[str] = "moco-v2"
    defaults: ClassVar[dict[str, Any]]  # settings of the last stage in which it differs from `Settings`

    encoder: str | None = None
    pretrain_epochs: float = 200.0

    def training_settings(self) -> dict[str, Any]:
        self._check()
        given = self._given_settings()
        training = dataclasses.asdict(self._stage_settings(given, self.defaults))
        if self.encoder is None:
            settings, options = resolve(self.pretraining, self._pretraining_settings(given))
            training["pretraining"] = {**dataclasses.asdict(settings), **options}
        return training

    @classmethod
    def setting_names(cls) -> list[str]:
        return [field.name for field in dataclasses.fields(Settings)]

    def _pretrained(self, images: Images, settings: dict[str, Any], seed: int) -> nn.Module:
        """The pretrained backbone."""
        from .loop import build

        if self.encoder is not None:
            size = read_pretrained_config(Path(self.encoder)).size
            if size != images.shape[1]:
                raise ValueError(
                    f"The encoder in {self.encoder} was trained on images of {size} pixels, but these have "
                    f"{images.shape[1]}; resize them, or train another one."
                )
            encoder = PretrainedEncoder(Path(self.encoder), device=self.device)
            return copy.deepcopy(encoder._network).requires_grad_(True)
        model, stage = build(self.pretraining, self._pretraining_settings(settings), len(images), seed)
        return self._train(model, stage, images, seed, "Pretraining").backbone

    def _pretraining_settings(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        shared = {name: value for name, value in settings.items() if name in ("size", "width", "batch_size")}
        return {**shared, "epochs": self.pretrain_epochs}

    def _stage_settings(self, settings: dict[str, Any], defaults: dict[str, Any]) -> Settings:
        """Settings of a stage: ``defaults``, replaced by those that the user has given."""
        values = {**dataclasses.asdict(Settings()), **defaults}
        return Settings(**values | {name: convert(name, value, values[name]) for name, value in settings.items()})


class FixableMethod(ClusteringMethod):
    """A method that trains its backbone or not; a ``fixed`` one normalises with its running statistics."""

    def __init__(self, backbone: nn.Module, *, fixed: bool) -> None:
        super().__init__(backbone.requires_grad_(not fixed))
        self.fixed = fixed

    def train(self, mode: bool = True) -> Self:
        """Set the mode."""
        super().train(mode)
        self.backbone.train(mode and not self.fixed)
        return self


def weak(augmentation: Augmentation) -> Augmentation:
    """Large crops and mirror images, with the colours as they are."""
    return dataclasses.replace(augmentation, scale=(0.7, 1.0), jitter=0.0, grey=0.0, blur=0.0)


@dataclass(frozen=True)
class StrongAugmentation(Augmentation):
    """The augmentation of contrastive methods, with a random square of the mean colour (cutout) on top."""

    cutout: float = 0.5  # side of the square over that of the image

    def __call__(self, images: Tensor, numbers: Tensor) -> Tensor:
        pixels = super().__call__(images, numbers)
        u = (numbers[:, :2].to(pixels.device) * 997) % 1  # later digits of the numbers, independent of the crop
        position = (torch.arange(self.size, device=pixels.device) + 0.5) / self.size
        inside = (position - u[:, :, None]).abs() < self.cutout / 2  # (b, 2, size)
        return pixels.masked_fill((inside[:, 0, :, None] & inside[:, 1, None, :])[:, None], 0)


def strong(augmentation: Augmentation) -> StrongAugmentation:
    """``augmentation`` with cutout."""
    return StrongAugmentation(**dataclasses.asdict(augmentation))


def stage_seed(seed: int, stage: int) -> int:
    """Seed of a stage."""
    return mix(seed, stage) % 2**31


def seeded_linear(backbone: nn.Module, size: int, k: int, seed: int) -> nn.Linear:
    """A linear head with k outputs for the features of images with ``size`` pixels per side."""
    from .loop import feature_dim

    with seeded(seed):
        return nn.Linear(feature_dim(backbone, size), k).to(next(backbone.parameters()).device)
