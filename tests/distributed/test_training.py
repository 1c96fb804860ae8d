"""The number of processes changes neither gradients nor labels, and an interrupted training resumes with any number."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

from cgmcr2 import CgMCR2
from cgmcr2.distributed import ProcessError, process_group
from cgmcr2.training import resolve, train
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
    state = TrainingState.create(settings, (X.shape[1],), k, min(settings.s, n), inputs, 1, device)
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
        batch = torch.from_numpy(X[rows[group.part(len(rows))]]).double()
        step(state, state.network.project(batch) if settings.projection else batch, rows)
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
                assert difference <= 1e-6 * value.norm() + 1e-12, (key, name)  # a bias before BatchNorm has gradient 0
    assert len(expected["auto", "warm-up"]) == 11


def fit_digits(preset: str) -> CgMCR2:
    settings = {"hidden_dim": 64, "batch_size": 150}
    return CgMCR2(K, preset=preset, settings=settings, random_state=3).fit(digits(400))


@pytest.mark.parametrize("preset", ["auto", "paper"])
def test_labels_of_a_complete_training(run: Run, preset: str) -> None:
    expected = fit_digits(preset)
    for model in run(2, fit_digits, preset):
        assert np.mean(model.labels_ == expected.labels_) >= 0.999
        assert model.calibration_.stability == pytest.approx(expected.calibration_.stability, abs=0.01)
        assert len(model.history_) == len(expected.history_)
        assert np.array_equal(model.predict(digits(400)), model.labels_)


def fit_differently() -> CgMCR2:
    with process_group() as group:
        return CgMCR2(K, settings={"hidden_dim": 16}).fit(digits(200 + group.rank))


def test_different_rows_are_refused(run: Run) -> None:
    first, second = run(2, fit_differently)
    assert isinstance(first, ProcessError)
    assert isinstance(second, ValueError)
    assert "give each of them all rows" in str(second)


def train_small(folder: Path, killed_at: int | None = None) -> tuple[int, np.ndarray[Any, Any]]:
    """Train with a checkpoint after every step; the last process kills itself after epoch ``killed_at``.

    Returns the step that training started at, and the labels.
    """
    X = digits(300)
    settings = resolve("auto", 300, K, 64, {"hidden_dim": 32, "batch_size": 100})
    steps = []
    with process_group() as group:

        def on_epoch(epoch: int, network: Any, head: int) -> None:
            steps.append(epoch)
            if epoch == killed_at and group.rank == group.size - 1:
                os.kill(os.getpid(), signal.SIGKILL)

        trained = train(X, K, settings, folder=folder, on_epoch=on_epoch, checkpoint_seconds=-1.0, group=group)
    with torch.no_grad():
        return steps[0], trained.network(torch.from_numpy(X))[1][trained.head].argmax(-1).numpy()


def test_a_killed_process_ends_the_others_and_another_number_resumes(run: Run, tmp_path: Path) -> None:
    _, expected = train_small(tmp_path / "whole")
    *survivors, killed = run(3, train_small, tmp_path / "killed", 5)
    assert killed is None
    for error in survivors:
        assert isinstance(error, ProcessError)
        assert str(error).startswith("Another process of this training has ended; repeat the command to resume")
    for start, labels in run(2, train_small, tmp_path / "killed"):
        assert start in (5, 6)
        assert np.mean(labels == expected) >= 0.999
    assert not list((tmp_path / "killed").glob(".*"))
