"""The running statistics of BatchNorm layers."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn

from cgmcr2._random import mix, seeded
from cgmcr2.distributed import ONE_PROCESS, Group

from .features import BATCH_IMAGES, map_images
from .images import Images

if TYPE_CHECKING:
    from .settings import Settings


def batch_norms(network: nn.Module) -> list[nn.modules.batchnorm._BatchNorm]:
    """The BatchNorm layers of ``network``."""
    return [layer for layer in network.modules() if isinstance(layer, nn.modules.batchnorm._BatchNorm)]


@contextlib.contextmanager
def momentum(network: nn.Module, value: float) -> Iterator[None]:
    """Context in which the statistics of a batch have the weight ``value`` in the running statistics."""
    layers = batch_norms(network)
    momenta = [layer.momentum for layer in layers]
    for layer in layers:
        layer.momentum = value
    try:
        yield
    finally:
        for layer, old in zip(layers, momenta, strict=True):
            layer.momentum = old


def running_statistics(network: nn.Module) -> list[tuple[Tensor, Tensor]]:
    """The running statistics of ``network``, each with a copy."""
    return [(tensor, tensor.clone()) for layer in batch_norms(network) for tensor in layer.buffers()]


@torch.no_grad()
def restore(statistics: list[tuple[Tensor, Tensor]]) -> None:
    """Set the running statistics to their copies."""
    for tensor, old in statistics:
        tensor.copy_(old)


def recalibrate(network: nn.Module, images: Images, settings: Settings, seed: int, group: Group = ONE_PROCESS) -> None:
    """Set the running statistics of ``network`` to those of the images as they are, in random order."""
    order = np.random.default_rng(seed).permutation(len(images))
    parts = np.array_split(order, -(-len(order) // BATCH_IMAGES))  # of equal size: each has the same weight
    with seeded(mix(seed, group.rank), next(network.parameters()).device):  # for dropout
        for number, rows in enumerate(parts):
            with momentum(network, 1 / (number + 1)):
                map_images(network, images[rows[group.part(len(rows))]], settings, training=True)
