"""BatchNorm with the statistics of the whole batch."""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import Tensor, nn

from .group import Group

BatchNorm = nn.BatchNorm1d | nn.BatchNorm2d


def share_statistics(module: nn.Module, group: Group) -> None:
    """Make every BatchNorm in ``module`` use the statistics of the whole batch of ``group``."""
    for layer in module.modules() if group.size > 1 else ():
        if isinstance(layer, BatchNorm):
            layer.forward = functools.partial(batch_norm, layer, group=group)  # type: ignore[method-assign]


def batch_norm(module: BatchNorm, X: Tensor, group: Group) -> Tensor:
    """Apply ``module`` to ``X (n, h)``, this process's part of a batch, with the statistics of the whole batch.

    ``X`` may also be a part of a batch of images (n, h, height, width).

    Torch's ``SyncBatchNorm`` does the same on GPUs only.

    >>> from .group import ONE_PROCESS
    >>> batch_norm(nn.BatchNorm1d(1), torch.tensor([[1.0], [3.0]]), ONE_PROCESS).flatten().tolist()
    [-0.99..., 0.99...]
    """
    if group.size == 1 or not module.training:
        return type(module).forward(module, X)  # the module's own forward may be this function
    if X.dim() == 4:
        rows = batch_norm(module, X.permute(0, 2, 3, 1).flatten(0, 2), group)  # (n height width, h)
        images = rows.view(len(X), *X.shape[2:], X.shape[1]).permute(0, 3, 1, 2)
        return images.contiguous() if X.is_contiguous() else images  # keep the memory format of X
    with torch.autocast(X.device.type, enabled=False):
        values = X.to(module.weight.dtype)
        mean, variance, n = _statistics(values.detach().double(), group)
        scale = (variance + module.eps).rsqrt()
        output: Tensor = _Normalize.apply(  # type: ignore[no-untyped-call]
            values, module.weight, module.bias, mean.to(values.dtype), scale.to(values.dtype), n, group
        )
    _update_running_statistics(module, mean, variance * n / (n - 1))  # the unbiased variance
    return output.to(X.dtype)


def _statistics(X: Tensor, group: Group) -> tuple[Tensor, Tensor, float]:
    """Mean (h,) and biased variance (h,) of the rows of all processes, and their number.

    ``X`` is in float64, in which torch sums on CPUs.
    """
    mean = X.sum(0) / max(len(X), 1)
    squares = (X - mean).square().sum(0)
    row = torch.cat([mean, squares, X.new_tensor([len(X)])])
    rows = group.gather(row.unsqueeze(0), group.size)  # one row per process
    means, squares, counts = rows[:, : len(mean)], rows[:, len(mean) : -1], rows[:, -1:]
    n = counts.sum()
    mean = (counts * means).sum(0) / n
    variance = (squares + counts * (means - mean).square()).sum(0) / n  # within and between the processes
    return mean, variance, n.item()


@torch.no_grad()
def _update_running_statistics(module: BatchNorm, mean: Tensor, variance: Tensor) -> None:
    assert module.running_mean is not None
    assert module.running_var is not None
    assert module.num_batches_tracked is not None
    assert module.momentum is not None
    module.running_mean.lerp_(mean.to(module.running_mean), module.momentum)
    module.running_var.lerp_(variance.to(module.running_var), module.momentum)
    module.num_batches_tracked.add_(1)


class _Normalize(torch.autograd.Function):
    """``(X - mean) * scale * weight + bias``, where mean and scale are functions of the rows of all processes."""

    @staticmethod
    def forward(
        ctx: Any, X: Tensor, weight: Tensor, bias: Tensor, mean: Tensor, scale: Tensor, n: float, group: Group
    ) -> Tensor:
        normalized = (X - mean) * scale
        ctx.save_for_backward(normalized, weight, scale)
        ctx.n, ctx.group = n, group
        return normalized * weight + bias

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (gradient,) = gradients
        normalized, weight, scale = ctx.saved_tensors
        d_bias = gradient.sum(0, dtype=torch.float64)
        d_weight = (gradient * normalized).sum(0, dtype=torch.float64)
        means = (ctx.group.sum(torch.stack([d_bias, d_weight])) / ctx.n).to(gradient.dtype)
        d_X = (gradient - means[0] - normalized * means[1]) * (weight * scale)
        return d_X, d_weight.to(weight.dtype), d_bias.to(weight.dtype), None, None, None, None
