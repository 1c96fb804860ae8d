"""Features of augmented views of images in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from cgmcr2.encoders.preprocessing import Preprocessing

from .augment import Augmentation, default_augmentation, draw
from .images import Images

if TYPE_CHECKING:
    from .loop import Pretrained
    from .settings import Settings

BATCH_IMAGES = 256  # images per forward pass


@torch.no_grad()
def map_images(network: nn.Module, images: Images, settings: Settings, *, training: bool = False) -> Tensor:
    """Output (n, d) of ``network``, by default in evaluation mode, for images as they are; on the CPU."""
    augmentation, size = default_augmentation(settings), settings.size
    preprocessing = Preprocessing(size, size, mean=augmentation.mean, std=augmentation.std)
    device = next(network.parameters()).device
    was_training = network.training
    network.train(training)
    chunks = [
        network(preprocessing.normalize(images[i : i + BATCH_IMAGES], device).permute(0, 3, 1, 2)).float().cpu()
        for i in range(0, len(images), BATCH_IMAGES)
    ]
    network.train(was_training)
    return torch.cat(chunks)


@torch.no_grad()
def view_features(backbone: nn.Module, view: Augmentation, images: Images, numbers: Tensor) -> Tensor:
    """Features (n, D) of random views of uint8 ``images`` (n, H, W, 3), given the ``numbers`` of ``draw``."""
    device = next(backbone.parameters()).device
    parts = [slice(i, i + BATCH_IMAGES) for i in range(0, len(images), BATCH_IMAGES)]
    return torch.cat([backbone(view(torch.from_numpy(images[part]).to(device), numbers[part])) for part in parts])


def averaged_features(trained: Pretrained, images: Images, *, views: int = 2, seed: int = 0) -> npt.NDArray[np.float32]:
    """Mean of the features (n, D) of random views of ``images``: the paper's pre-feature."""
    total: Tensor | float = 0.0
    for view in range(views):
        numbers = draw(len(images), seed=seed, step=0, view=view)
        total = total + view_features(trained.backbone, trained.augmentation, images, numbers).float().cpu()
    assert isinstance(total, Tensor)
    return np.asarray((total / views).numpy())
