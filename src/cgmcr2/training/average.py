"""Exponential moving average of the weights."""

from __future__ import annotations

import torch
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from cgmcr2.model import Network


class WeightAverage(AveragedModel):
    """Exponential moving average of the weights and buffers of ``network``.

    The same values as torch's ``AveragedModel``, which looks up all modules in each update: in small fits, that takes a
    tenth of the time of a step.
    """

    def __init__(self, network: Network, decay: float) -> None:
        super().__init__(network, multi_avg_fn=get_ema_multi_avg_fn(decay), use_buffers=True)  # type: ignore[no-untyped-call]
        self._decay = decay
        self._averages, self._weights = (
            [tensor.detach() for tensor in (*module.parameters(), *module.buffers()) if tensor.is_floating_point()]
            for module in (self.module, network)
        )

    @torch.no_grad()
    def update(self) -> None:
        """Average with the current weights of the network; the first update copies them."""
        torch._foreach_lerp_(self._averages, self._weights, 1 - self._decay if self.n_averaged else 1.0)
        self.n_averaged += 1
