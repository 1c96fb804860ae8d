"""Torch optimizers that do not import ``torch._dynamo``, which takes more than a second of CPU time.

Torch imports it in the wrappers of some optimizer methods, for ``torch.compile``, which this package does not use.
"""

from __future__ import annotations

import inspect
from typing import TypeVar

import torch

T = TypeVar("T", bound=torch.optim.Optimizer)

WRAPPED = ("add_param_group", "zero_grad", "state_dict", "load_state_dict")  # their wrappers import torch._dynamo


def without_dynamo(optimizer: type[T]) -> type[T]:
    """Subclass of a torch optimizer with the same methods, but without the wrappers for ``torch.compile``.

    A method that has no such wrapper in the installed version of torch stays as it is.

    >>> weight = torch.nn.Parameter(torch.ones(1))
    >>> sgd = without_dynamo(torch.optim.SGD)([weight], lr=0.5)
    >>> weight.sum().backward()
    >>> sgd.step()
    >>> weight.item()
    0.5
    """
    methods = {name: inspect.unwrap(getattr(optimizer, name)) for name in WRAPPED}
    step = torch.no_grad()(inspect.unwrap(optimizer.step))  # the wrapper of step() also disables gradients
    return type(optimizer.__name__, (optimizer,), {**methods, "step": step, "__module__": __name__})


Adam = without_dynamo(torch.optim.Adam)
AdamW = without_dynamo(torch.optim.AdamW)
SGD = without_dynamo(torch.optim.SGD)
