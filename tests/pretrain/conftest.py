from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from cgmcr2.pretrain import augment


class Small(nn.Module):
    """A small network with BatchNorm and dropout, from images (n, 3, h, w) to (n, 8)."""

    def __init__(self, dropout: float = 0.0) -> None:
        super().__init__()
        self.dropout = dropout
        self.conv = nn.Conv2d(3, 8, 3, 4, 1, bias=False)
        self.bn = nn.BatchNorm2d(8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        features = torch.relu(self.bn(self.conv(x))).mean((2, 3))
        return nn.functional.dropout(features, self.dropout, self.training)


def small_images(n: int, size: int = 16) -> np.ndarray[Any, Any]:
    """Random smooth images, uint8 (n, size, size, 3)."""
    coarse = torch.from_numpy(np.random.default_rng(0).random((n, 3, 4, 4), dtype=np.float32))
    boxes = torch.tensor([0.0, 0.0, 4.0, 4.0]).expand(n, 4)
    smooth = augment.crop_and_resize(coarse, boxes, size, torch.zeros(n, dtype=torch.bool))
    return (255 * smooth).to(torch.uint8).permute(0, 2, 3, 1).contiguous().numpy()


def two_colours(n: int, size: int = 8) -> np.ndarray[Any, Any]:
    """Images, uint8 (n, size, size, 3), that are red and green in turn, with noise."""
    noise = np.random.default_rng(0).integers(0, 80, (n, size, size, 3))
    return (noise + 150 * np.eye(3, dtype=int)[np.arange(n) % 2][:, None, None]).astype(np.uint8)


@pytest.fixture(scope="session")
def images() -> np.ndarray[Any, Any]:
    return small_images(50)
