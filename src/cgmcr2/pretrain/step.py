"""One step of pretraining."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from .method import Batch, Loss, Method, spread
from .state import PretrainState

Record = dict[str, Any]


def update(state: PretrainState, loss: Loss, lr: float, batch: Batch) -> Record:
    """Take a step and return its metrics; a step with a non-finite loss or gradient is skipped."""
    model: Method = state.model
    total = torch.stack(list(loss.terms.values())).sum()
    state.optimizer.zero_grad(set_to_none=True)
    total.backward()  # type: ignore[no-untyped-call]
    trained = [parameter for parameter in model.parameters() if parameter.grad is not None]
    batch.group.sum_gradients(trained)
    norm = torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(p.grad) for p in trained]))
    finite = bool(torch.isfinite(total) & torch.isfinite(norm))
    if finite:
        for group in state.optimizer.param_groups:
            group["lr"] = lr
        state.optimizer.step()
        model.after_step(batch)
    values = {"loss": total, **loss.terms, "gradient": norm, "spread": spread(loss.Z)}
    return {name: _number(value) for name, value in values.items()} | {"finite": finite}


def _number(value: Tensor) -> float | None:
    """A number for JSON, which has no NaN."""
    number = float(value.detach())
    return round(number, 6) if np.isfinite(number) else None
