from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import torch

from cgmcr2.training import Settings
from cgmcr2.training.precompute import Precomputed, precompute

NOTHING = Settings(hidden_dim=8, neighbours=0, projection=0, consensus_weight=0.0)


def test_only_what_the_settings_use_is_computed(X: np.ndarray[Any, Any]) -> None:
    assert precompute(X, 3, NOTHING, seed=0) == Precomputed()
    projected = precompute(X, 3, dataclasses.replace(NOTHING, projection=4), seed=0)
    assert projected.matrix is not None
    assert projected.matrix.shape == (8, 4)
    assert projected.neighbours is None
    neighbours = precompute(X, 3, dataclasses.replace(NOTHING, neighbours=5), seed=0).neighbours
    assert neighbours is not None
    assert neighbours.shape == (120, 10)
    partition = precompute(X, 3, dataclasses.replace(NOTHING, consensus_weight=1.0), seed=0).partition
    assert partition is not None
    assert sorted(set(partition)) == [0, 1, 2]


def test_tensors_round_trip(X: np.ndarray[Any, Any]) -> None:
    settings = dataclasses.replace(NOTHING, projection=4, neighbours=5, consensus_weight=1.0)
    inputs = precompute(X, 3, settings, seed=0)
    restored = Precomputed.from_tensors(inputs.tensors())
    assert inputs.matrix is not None
    assert restored.matrix is not None
    assert torch.equal(inputs.matrix, restored.matrix)
    assert np.array_equal(inputs.neighbours, restored.neighbours)  # type: ignore[arg-type]
    assert np.array_equal(inputs.partition, restored.partition)  # type: ignore[arg-type]
