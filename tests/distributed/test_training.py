"""The number of processes changes neither gradients nor labels, and an interrupted training resumes with any number."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

from cgmcr2.distributed import process_group
from cgmcr2.training import resolve
from cgmcr2.training.batches import Batches
from cgmcr2.training.loop import _cluster_module, _guide
from cgmcr2.training.neighbour_graph import NeighbourGraph
from cgmcr2.training.precompute import precompute
from cgmcr2.training.schedule import Schedule
from cgmcr2.training.state import TrainingState
from cgmcr2.training.step import TrainingStep

from .conftest import Run

K = 10
SMALL = {"hidden_dim": 24, "embedding_dim": 8, "warmup_epochs": 2, "finetune_epochs": 2, "s": 5}
OVERRIDES: dict[str, dict[str, Any]] = {
    "auto": {**SMALL, "batch_size": 51, "n_heads": 2},
    "paper": {**SMALL, "batch_size": 51, "depth": 2},
    "reference": {**SMALL, "batch_size": 51},
}


def digits(n: int) -> np.ndarray[Any, Any]:
    return load_digits().data[:n].astype(np.float32)


def gradients(preset: Any, n: int, stage: str) -> dict[str, torch.Tensor]:
    """The gradient of every parameter in the first step of a stage, in float64."""
    X, k = digits(n), min(K, n - 1)
    settings = resolve(preset, n, k, X.shape[1], OVERRIDES[preset])
    schedule, inputs, device = Schedule(settings, n), precompute(X, k, settings, seed=1), torch.device("cpu")
    state = TrainingState.create(settings, X.shape[1], k, min(settings.s, n), inputs, 1, device)
    state.network.double()
    state.objective.double()
    state.monitor.shares, state.monitor.head_loss = state.monitor.shares.double(), state.monitor.head_loss.double()
    state.step = 0 if stage == "warm-up" else schedule.warmup_steps
    batches = Batches(n, schedule.steps_per_epoch, 1, neighbours=inputs.neighbours)
    rows = batches.rows(state.step)
    with process_group() as group:
        step = TrainingStep(
            settings,
            schedule,
            _cluster_module(settings, k, schedule, 1, device),
            _guide(settings, schedule, inputs, device),
            NeighbourGraph(inputs.neighbours) if inputs.neighbours is not None else None,
            device,
            torch.float32,
            group,
        )
        step(state, torch.from_numpy(X[rows[group.part(len(rows))]]).double(), rows)
    parameters = [*state.network.named_parameters(), *state.objective.named_parameters()]
    return {name: parameter.grad for name, parameter in parameters if parameter.grad is not None}


def all_gradients(n: int) -> dict[tuple[str, str], dict[str, torch.Tensor]]:
    return {
        (preset, stage): gradients(preset, n, stage) for preset in OVERRIDES for stage in ("warm-up", "fine-tuning")
    }


@pytest.mark.parametrize(("size", "n"), [(2, 101), (4, 101), (4, 3)], ids=["2", "4", "more than rows"])
def test_gradients_of_every_parameter(run: Run, size: int, n: int) -> None:
    expected = all_gradients(n)
    for result in run(size, all_gradients, n):
        for key, values in expected.items():
            assert values.keys() == result[key].keys()
            for name, value in values.items():
                difference = (result[key][name] - value).norm()
                assert difference <= 1e-6 * value.norm(), (key, name)
    assert len(expected["auto", "warm-up"]) == 11
