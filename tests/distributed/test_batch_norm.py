from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from cgmcr2.distributed import batch_norm, process_group, share_statistics

from .conftest import Run

H = 5


def normalize(n: int, dtype: torch.dtype) -> dict[str, Tensor]:
    """Outputs, gradients and running statistics after two batches of ``n`` rows, and in evaluation."""
    torch.manual_seed(0)
    module = nn.BatchNorm1d(H, momentum=0.3).to(dtype)
    nn.init.uniform_(module.weight)
    nn.init.uniform_(module.bias)
    batches, weights = 100 + torch.randn(2, n, H, dtype=dtype), torch.randn(n, H, dtype=dtype)
    with process_group() as group:
        part = group.part(n)
        for X in batches:
            mine = X[part].clone().requires_grad_()
            output = batch_norm(module, mine, group)
            module.zero_grad()
            (output * weights[part]).sum().backward()
            group.sum_gradients(module.parameters())
        return {
            "output": group.gather(output.detach(), n),
            "gradient": group.gather(mine.grad, n),
            "weight": module.weight.grad,
            "bias": module.bias.grad,
            **dict(module.named_buffers()),
            "evaluation": batch_norm(module.eval(), batches[0], group).detach(),
        }


@pytest.mark.parametrize("n", [2, 9])
@pytest.mark.parametrize("size", [2, 3])
def test_equals_torch_on_the_whole_batch(run: Run, n: int, size: int) -> None:
    expected = normalize(n, torch.float64)
    for result in run(size, normalize, n, torch.float64):
        for name, value in expected.items():
            torch.testing.assert_close(result[name], value, rtol=1e-9, atol=1e-9, msg=name)


def normalize_images(memory_format: torch.memory_format) -> tuple[Tensor, bool]:
    """Output for 5 images in two layers that share statistics, and whether it has the memory format of the input."""
    module = nn.Sequential(nn.BatchNorm2d(3), nn.BatchNorm2d(3)).double()
    images = torch.randn(5, 3, 4, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    with process_group() as group:
        share_statistics(module, group)
        output = module(images[group.part(5)].contiguous(memory_format=memory_format))
        return group.gather(output.detach(), 5), output.is_contiguous(memory_format=memory_format)


@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last], ids=str)
def test_images(run: Run, memory_format: torch.memory_format) -> None:
    expected, _ = normalize_images(memory_format)
    for output, same_format in run(2, normalize_images, memory_format):
        torch.testing.assert_close(output, expected, rtol=1e-9, atol=1e-9)
        assert same_format


def test_half_precision_keeps_its_type(run: Run) -> None:
    for result in run(2, half):
        assert result.dtype == torch.bfloat16


def half() -> Tensor:
    with process_group() as group:
        return batch_norm(nn.BatchNorm1d(H), torch.ones(2, H, dtype=torch.bfloat16), group).detach()
