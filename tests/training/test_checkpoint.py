from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from cgmcr2.training import Settings
from cgmcr2.training.checkpoint import Checkpoints, remove_checkpoints
from cgmcr2.training.precompute import Precomputed
from cgmcr2.training.state import TrainingState

CPU = torch.device("cpu")


def state(settings: Settings, seed: int = 0) -> TrainingState:
    return TrainingState.create(settings, 8, 3, 5, Precomputed(), seed, CPU)


def test_a_state_round_trips(small: Settings, tmp_path: Path) -> None:
    settings = dataclasses.replace(small, ema=0.9)
    identity: dict[str, Any] = {"settings": dataclasses.asdict(settings), "seed": 0}
    saved = state(settings)
    loss = sum(parameter.square().sum() for parameter in saved.network.parameters())
    loss.backward()  # type: ignore[union-attr]
    saved.optimizer.step()
    assert saved.average is not None
    saved.average.update_parameters(saved.network)
    saved.step, saved.revivals, saved.objective.gamma = 7, 2, 20.0
    Checkpoints(tmp_path, identity).save(saved)

    restored = state(settings, seed=1)
    Checkpoints(tmp_path, identity).restore(restored)
    assert (restored.step, restored.revivals, restored.objective.gamma) == (7, 2, 20.0)
    for a, b in zip(saved.network.state_dict().values(), restored.network.state_dict().values(), strict=True):
        assert torch.equal(a, b)
    for a, b in zip(saved.network.parameters(), restored.network.parameters(), strict=True):
        assert torch.equal(saved.optimizer.state[a]["exp_avg_sq"], restored.optimizer.state[b]["exp_avg_sq"])
    assert restored.average is not None
    assert int(restored.average.n_averaged) == 1


def test_without_a_folder_nothing_is_kept(small: Settings) -> None:
    checkpoints = Checkpoints(None, {})
    checkpoints.save(state(small))
    assert checkpoints.load_precomputed() is None


def test_finished_trainings_keep_no_checkpoint(small: Settings, tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, {"settings": {}})
    checkpoints.save(state(small))
    checkpoints.save_precomputed(Precomputed(partition=np.arange(3)))
    assert checkpoints.load_precomputed() is not None
    remove_checkpoints(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_checkpoint_is_one_sentence(small: Settings, tmp_path: Path) -> None:
    (tmp_path / "checkpoint.safetensors").write_bytes(b"rubbish")
    with pytest.raises(ValueError, match=r"not a readable checkpoint .* delete it to train from the beginning"):
        Checkpoints(tmp_path, {}).restore(state(small))
