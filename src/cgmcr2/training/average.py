"""A running mean of the weights: steadier than the last step's."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Average:
    """The exponential moving average of a module's floating-point state, BatchNorm's statistics included.

    >>> layer = nn.Linear(1, 1)
    >>> average = Average(layer, memory=0.5)
    >>> _ = nn.init.constant_(layer.weight, 3.0)
    >>> average.update(); average.update()
    >>> _ = nn.init.constant_(layer.weight, 7.0)
    >>> average.update(); average.use()
    >>> layer.weight.item()
    5.0
    """

    def __init__(self, module: nn.Module, memory: float) -> None:
        self.memory = memory
        self.state = {name: tensor for name, tensor in module.state_dict().items() if tensor.is_floating_point()}
        self.mean: dict[str, Tensor] = {}

    @torch.no_grad()
    def update(self) -> None:
        """Take in the module as it is now; the first call takes it whole."""
        if not self.mean:
            self.mean = {name: tensor.clone() for name, tensor in self.state.items()}
        else:
            torch._foreach_lerp_([self.mean[name] for name in self.state], list(self.state.values()), 1 - self.memory)

    @torch.no_grad()
    def use(self) -> None:
        """Give the module its mean."""
        for name, tensor in self.mean.items():
            self.state[name].copy_(tensor)
