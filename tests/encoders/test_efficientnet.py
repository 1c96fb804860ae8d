"""The fast network compared with a plain one: separate BatchNorm, TensorFlow's padding, channels first."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from cgmcr2.encoders.bundled import load_weights
from cgmcr2.encoders.efficientnet import EfficientNetLite0

# stride of the 16 blocks, and + for a residual connection, from the table of the paper
BLOCKS = ["1-", "2-", "1+", "2-", "1+", "2-", "1+", "1+", "1-", "1+", "1+", "2-", "1+", "1+", "1+", "1-"]


def reference(state: dict[str, torch.Tensor], x: torch.Tensor) -> torch.Tensor:
    def layer(x: torch.Tensor, conv: str, norm: str, stride: int = 1) -> torch.Tensor:
        weight = state[f"{conv}.weight"].double()
        kernel = weight.shape[-1]
        side = x.shape[-1]
        total = max((-(-side // stride) - 1) * stride + kernel - side, 0)  # TensorFlow's SAME
        before, after = total // 2, total - total // 2
        x = F.pad(x, (before, after, before, after))
        x = F.conv2d(x, weight, stride=stride, groups=len(weight) if weight.shape[1] == 1 else 1)
        parts = (state[f"{norm}.{part}"].double() for part in ("running_mean", "running_var", "weight", "bias"))
        return F.batch_norm(x, *parts, eps=1e-3)

    x = F.relu6(layer(x, "_conv_stem", "_bn0", 2))
    for number, (stride, residual) in enumerate(BLOCKS):
        prefix, y = f"_blocks.{number}", x
        if number:
            y = F.relu6(layer(y, f"{prefix}._expand_conv", f"{prefix}._bn0"))
        y = F.relu6(layer(y, f"{prefix}._depthwise_conv", f"{prefix}._bn1", int(stride)))
        y = layer(y, f"{prefix}._project_conv", f"{prefix}._bn2")
        x = x + y if residual == "+" else y
    return F.relu6(layer(x, "_conv_head", "_bn1")).mean((2, 3))


def test_features_equal_those_of_the_plain_network() -> None:
    state = load_weights()
    x = torch.randn(3, 64, 32, 3, generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        features = EfficientNetLite0(state).eval()(x)
        expected = reference(state, x.double().permute(0, 3, 1, 2))
    assert features.shape == (3, 1280)
    torch.testing.assert_close(features.double(), expected, rtol=1e-4, atol=1e-4)
