"""The number of processes changes neither the gradients nor the metrics of pretraining."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch

from cgmcr2.distributed import process_group, share_statistics
from cgmcr2.pretrain import Augmentation, Batch, pretrain
from cgmcr2.pretrain.augment import draw
from cgmcr2.pretrain.registry import method_class

from ..pretrain.conftest import Small
from .conftest import Run

N = 7
METHODS = ("moco-v2", "simclr-tcr", "cc", "gcc", "imc-swav")


def images(n: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(0).integers(0, 256, (n, 8, 8, 3), dtype=np.uint8)


def gradients(name: str) -> dict[str, torch.Tensor]:
    """The gradients of a step in float64, and the tensors of the method after it."""
    torch.manual_seed(0)
    method: Any = method_class(name)
    model = method(Small(), 8, 50, dim=4).double().train()
    with process_group() as group:
        share_statistics(model, group)
        batch = Batch(np.arange(N), step=0, group=group)
        part = group.part(N)
        if name == "gcc":
            model.nearest[:N] = (torch.arange(N)[:, None] + torch.arange(1, 6)) % N
        augment = Augmentation(size=8)
        sources = [images(N)[rows[part]] for rows in (batch.rows, batch.rows, *model.companions(batch))]
        views = [
            augment(torch.from_numpy(pixels), draw(N, seed=0, step=0, view=view)[part]).double()
            for view, pixels in enumerate(sources)
        ]
        loss = model.loss(views, batch)
        torch.stack(list(loss.terms.values())).sum().backward()
        group.sum_gradients([p for p in model.parameters() if p.grad is not None])
        model.after_step(batch)
    grads = {f"gradient of {k}": p.grad for k, p in model.named_parameters() if p.grad is not None}
    return grads | copy.deepcopy(dict(model.state_dict()))


def short_training() -> list[dict[str, Any]]:
    with process_group() as group:
        overrides = {"size": 8, "epochs": 2, "batch_size": 10}
        torch.manual_seed(0)
        trained = pretrain(images(20), "moco-v2", overrides, backbone=Small(), device="cpu", group=group)
    return trained.history


def gradients_and_history() -> tuple[dict[str, dict[str, torch.Tensor]], list[dict[str, Any]]]:
    return {name: gradients(name) for name in METHODS}, short_training()


@pytest.mark.filterwarnings("ignore:.*too few")
def test_two_processes_equal_one(run: Run) -> None:
    expected, history = gradients_and_history()
    for result, records in run(2, gradients_and_history):
        for name, tensors in expected.items():
            assert result[name].keys() == tensors.keys()
            for key, value in tensors.items():
                torch.testing.assert_close(result[name][key], value, rtol=1e-5, atol=1e-6, msg=f"{name} {key}")
        assert [record["loss"] for record in records] == pytest.approx([record["loss"] for record in history], rel=1e-3)
