from __future__ import annotations

import numpy as np
import pytest
import torch

from cgmcr2.model import Network, NetworkConfig
from cgmcr2.training import start


def test_neighbours_are_the_exact_ones() -> None:
    X = np.random.default_rng(0).standard_normal((300, 5)).astype(np.float32)
    unit = X / np.linalg.norm(X, axis=1, keepdims=True)
    similarity = unit @ unit.T
    np.fill_diagonal(similarity, -2)
    expected = np.sort(np.argsort(-similarity, axis=1)[:, :4], axis=1)
    assert np.array_equal(np.sort(start.nearest_neighbours(X, 4, seed=0), axis=1), expected)


def test_neighbours_in_chunks_are_of_the_same_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(start, "CHUNK", 40)
    X = np.random.default_rng(0).standard_normal((100, 5)).astype(np.float32)
    neighbours = start.nearest_neighbours(X, 3, seed=0)
    assert neighbours.shape == (100, 3)
    assert (neighbours != np.arange(100)[:, None]).all()
    assert len({tuple(sorted(row)) for row in neighbours}) > 50


def test_prepare_standardises_and_starts_from_the_principal_directions() -> None:
    X = (np.random.default_rng(0).standard_normal((500, 6)) * [9, 5, 1, 1, 1, 1] + 7).astype(np.float32)
    network = Network(NetworkConfig(in_dim=6, n_clusters=2, hidden_dim=4, embedding_dim=2, linear_path=True))
    start.prepare(network, X, seed=0, standardize=True, pca=True)
    seen = (torch.from_numpy(X) - network.input_mean) * network.input_scale
    assert seen.mean().abs() < 1e-5
    assert seen.square().mean() == pytest.approx(1, rel=1e-4)
    assert network.linear_path is not None
    weights = network.linear_path.weight.abs()
    assert weights[0, 0] > 0.99  # the widest direction
    assert weights[1, 1] > 0.99


def test_constant_features_do_not_divide_by_zero() -> None:
    network = Network(NetworkConfig(in_dim=3, n_clusters=2, hidden_dim=4, embedding_dim=2, linear_path=True))
    start.prepare(network, np.ones((10, 3), dtype=np.float32), seed=0, standardize=True, pca=True)
    assert all(tensor.isfinite().all() for tensor in network.state_dict().values())
