"""Encoders trained here, on images without labels: augmentations, one loop, and one file per method."""

from .augment import Augmentation, multi_crop
from .clusterer import ImageClusterer
from .estimators import CLUSTERERS, make_clusterer
from .folder import pretrain_images
from .images import load_images
from .loop import Pretrained, pretrain
from .method import Batch, Loss, Method
from .registry import resolve
from .settings import Settings

__all__ = [
    "CLUSTERERS",
    "Augmentation",
    "Batch",
    "ImageClusterer",
    "Loss",
    "Method",
    "Pretrained",
    "Settings",
    "load_images",
    "make_clusterer",
    "multi_crop",
    "pretrain",
    "pretrain_images",
    "resolve",
]
