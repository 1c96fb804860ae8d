"""EfficientNet-Lite0 for inference in plain PyTorch, as fast as in onnxruntime.

The network of Tan and Le (2019) without squeeze-and-excitation and with ReLU6, as in TensorFlow's
``efficientnet-lite0``. For speed, BatchNorm is folded into the convolutions, tensors are channels-last, activations are
in place, and 1x1 convolutions are matrix products.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
import torch.nn.functional as F
from torch import nn

BN_EPS = 1e-3  # TensorFlow's default; PyTorch's is 1e-5
DIM = 1280  # number of features
STRIDE = 32  # total stride of the network
# (number of blocks, output channels, stride of the first block) of each stage; the stem has 32 output channels
_STAGES = ((1, 16, 1), (2, 24, 2), (2, 40, 2), (3, 80, 2), (3, 112, 1), (4, 192, 2), (1, 320, 1))
# The activations of the first layers are large. On a CPU, processing two images at a time keeps them in the cache and
# below the 32 MB up to which the C library reuses memory; above, page faults take a fifth of the time.
_EARLY_LAYERS, _EARLY_IMAGES = 4, 2

State = Mapping[str, torch.Tensor]


def _fold_batchnorm(state: State, conv: str, norm: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Return weight (out, in, k, k) and bias (out,) of a convolution with its BatchNorm folded in."""
    scale = state[f"{norm}.weight"].double() / (state[f"{norm}.running_var"].double() + BN_EPS).sqrt()
    bias = state[f"{norm}.bias"].double() - state[f"{norm}.running_mean"].double() * scale
    return (state[f"{conv}.weight"].double() * scale.view(-1, 1, 1, 1)).float(), bias.float()


class _Pointwise(nn.Module):
    """1x1 convolution of (n, h, w, c), followed by ReLU6 if ``relu``."""

    weight: torch.Tensor
    bias: torch.Tensor

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor, *, relu: bool = True) -> None:
        super().__init__()
        self.relu = relu
        self.register_buffer("weight", weight.flatten(1))
        self.register_buffer("bias", bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.linear(x, self.weight, self.bias)
        return F.hardtanh_(x, 0.0, 6.0) if self.relu else x


class _Spatial(nn.Module):
    """k x k convolution of (n, h, w, c), followed by ReLU6; h and w must be even if ``stride`` is 2."""

    weight: torch.Tensor
    bias: torch.Tensor

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor, *, stride: int) -> None:
        super().__init__()
        self.stride, self.padding = stride, weight.shape[-1] // 2
        self.groups = len(weight) if weight.shape[1] == 1 else 1  # all layers except the stem are depthwise
        if stride == 2:
            # TensorFlow pads even sides with one pixel less at the start than at the end. A zero row and column
            # before the kernel has the same effect without a padded copy of the activations.
            weight = F.pad(weight, (1, 0, 1, 0))
        self.register_buffer("weight", weight.contiguous(memory_format=torch.channels_last))
        self.register_buffer("bias", bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.conv2d(x.permute(0, 3, 1, 2), self.weight, self.bias, self.stride, self.padding, 1, self.groups)
        return F.hardtanh_(x, 0.0, 6.0).permute(0, 2, 3, 1)


class _Block(nn.Module):
    """Inverted residual: expand 1x1, depthwise k x k, project 1x1."""

    def __init__(self, state: State, prefix: str, *, stride: int, residual: bool) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        if f"{prefix}._expand_conv.weight" in state:  # all blocks except the first
            layers.append(_Pointwise(*_fold_batchnorm(state, f"{prefix}._expand_conv", f"{prefix}._bn0")))
        layers.append(_Spatial(*_fold_batchnorm(state, f"{prefix}._depthwise_conv", f"{prefix}._bn1"), stride=stride))
        layers.append(_Pointwise(*_fold_batchnorm(state, f"{prefix}._project_conv", f"{prefix}._bn2"), relu=False))
        self.layers, self.residual = nn.Sequential(*layers), residual

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.layers(x)
        return y.add_(x) if self.residual else y


class EfficientNetLite0(nn.Module):
    """Pooled features (n, 1280) of images (n, h, w, 3), where h and w are multiples of 32.

    ``state`` uses the names of ``efficientnet_pytorch``: ``_conv_stem.weight``, ``_blocks.0._bn1.bias``, ...
    """

    def __init__(self, state: State) -> None:
        super().__init__()
        layers: list[nn.Module] = [_Spatial(*_fold_batchnorm(state, "_conv_stem", "_bn0"), stride=2)]
        channels = 32
        for repeats, out, first_stride in _STAGES:
            for repeat in range(repeats):
                stride = first_stride if repeat == 0 else 1
                prefix = f"_blocks.{len(layers) - 1}"
                layers.append(_Block(state, prefix, stride=stride, residual=stride == 1 and channels == out))
                channels = out
        layers.append(_Pointwise(*_fold_batchnorm(state, "_conv_head", "_bn1")))
        self.early, self.late = nn.Sequential(*layers[:_EARLY_LAYERS]), nn.Sequential(*layers[_EARLY_LAYERS:])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.device.type == "cpu" and not torch.compiler.is_compiling():
            x = torch.cat([self.early(x[i : i + _EARLY_IMAGES]) for i in range(0, len(x), _EARLY_IMAGES)])
        else:
            x = self.early(x)
        features: torch.Tensor = self.late(x)
        return features.mean((1, 2))
