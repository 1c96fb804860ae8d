from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch

from cgmcr2.consensus.views import linear_views
from cgmcr2.training import Settings
from cgmcr2.training.precompute import Precomputed, precompute

NOTHING = Settings(hidden_dim=8, neighbours=0, projection=0, consensus_weight=0.0)


def informative_view(view: int) -> np.ndarray[Any, Any]:
    """240 rows in three groups that the standard view (0) or the white view (1) shows more clearly."""
    rng = np.random.default_rng(0)
    X = 0.3 * rng.standard_normal((240, 16))
    X[:, :3] += np.eye(3)[np.arange(240) % 3] * (2.0 if view == 1 else 3.0)
    if view == 1:
        X[:, 3:5] += rng.uniform(-8, 8, (240, 2))
        X = X @ np.linalg.qr(rng.standard_normal((16, 16)))[0]  # standardising the columns does not help
    return X.astype(np.float32)


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


@pytest.mark.parametrize("view", [0, 1], ids=["standard", "white"])
def test_the_view_of_most_voters_is_projected(view: int) -> None:
    X = informative_view(view)
    settings = dataclasses.replace(NOTHING, projection=8, consensus_weight=1.0)
    inputs, pair = precompute(X, 3, settings, seed=0), linear_views(X, 8, 0)
    views = inputs.views(())
    assert inputs.matrix is not None
    assert views is not None
    assert torch.equal(inputs.matrix, (pair.standard, pair.white)[view])
    assert torch.equal(views.standard, pair.standard)
    assert torch.equal(views.white, pair.white)


def test_the_space_of_most_voters_is_projected() -> None:
    noise = np.random.default_rng(1).standard_normal((240, 12)).astype(np.float32)
    X = np.hstack([noise, informative_view(0)])
    settings = dataclasses.replace(NOTHING, projection=8, consensus_weight=1.0)
    matrix = precompute(X, 3, settings, seed=0, spaces=(12, 16)).matrix
    assert matrix is not None
    assert not matrix[:12].any()
    assert matrix[12:].any()


@pytest.mark.parametrize("view", [0, 1], ids=["standard", "white"])
def test_tensors_round_trip(view: int) -> None:
    settings = dataclasses.replace(NOTHING, projection=4, neighbours=5, consensus_weight=1.0)
    inputs = precompute(informative_view(view), 3, settings, seed=0)
    restored = Precomputed.from_tensors(inputs.tensors())
    assert restored.view == view
    expected, tensors = inputs.tensors(), restored.tensors()
    assert set(tensors) == {"mean", "standard", "white", "view", "neighbours", "partition"}
    assert all(torch.equal(tensors[name], expected[name]) for name in expected)
