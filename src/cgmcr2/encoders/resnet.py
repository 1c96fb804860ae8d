"""ResNet-18 without its classifier, in the ImageNet and the CIFAR variant, with torchvision's parameter names."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

DIM = 512  # number of features at the usual width


class _Block(nn.Module):
    def __init__(self, channels: int, out: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, out, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(out)
        self.conv2 = nn.Conv2d(out, out, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(out)
        same = stride == 1 and channels == out
        self.downsample = (
            None if same else nn.Sequential(nn.Conv2d(channels, out, 1, stride, bias=False), nn.BatchNorm2d(out))
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        shortcut = x if self.downsample is None else self.downsample(x)
        y = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(y)) + shortcut)


class ResNet18(nn.Module):
    """Pooled features (n, 8 width) of images (n, 3, h, w).

    ``stem`` is the kernel size of the first convolution: 7 for ImageNet (stride 2, followed by max-pooling), 3 for
    CIFAR (stride 1, no max-pooling). ``width`` is its number of channels: 64, or less for slow machines.

    >>> ResNet18(stem=3).eval()(torch.zeros(2, 3, 32, 32)).shape
    torch.Size([2, 512])
    """

    def __init__(self, stem: int = 7, width: int = DIM // 8) -> None:
        super().__init__()
        if stem not in (3, 7):
            raise ValueError(f"The first convolution of a ResNet-18 must be 7x7, or 3x3 for CIFAR, got {stem}x{stem}.")
        if width < 1:
            raise ValueError(f"The width of a ResNet-18 must be at least 1 channel, but is {width}.")
        self.dim = 8 * width
        self.has_max_pooling = stem == 7
        self.conv1 = nn.Conv2d(3, width, stem, 2 if self.has_max_pooling else 1, stem // 2, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.layer1 = nn.Sequential(_Block(width, width, 1), _Block(width, width, 1))
        self.layer2 = nn.Sequential(_Block(width, 2 * width, 2), _Block(2 * width, 2 * width, 1))
        self.layer3 = nn.Sequential(_Block(2 * width, 4 * width, 2), _Block(4 * width, 4 * width, 1))
        self.layer4 = nn.Sequential(_Block(4 * width, 8 * width, 2), _Block(8 * width, 8 * width, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.relu(self.bn1(self.conv1(x)))
        if self.has_max_pooling:
            x = F.max_pool2d(x, 3, 2, 1)
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return x.mean((2, 3))
