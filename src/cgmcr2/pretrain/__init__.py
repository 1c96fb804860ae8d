"""Encoders trained here, on images without labels: augmentations, one loop, and one file per method."""

from .augment import Augmentation, multi_crop
from .folder import pretrain_images
from .loop import Pretrained, pretrain
from .method import Batch, Loss, Method
from .registry import resolve
from .settings import Settings

__all__ = [
    "Augmentation",
    "Batch",
    "Loss",
    "Method",
    "Pretrained",
    "Settings",
    "multi_crop",
    "pretrain",
    "pretrain_images",
    "resolve",
]
