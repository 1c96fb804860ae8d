"""Saving and loading networks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from cgmcr2.model import Network, NetworkConfig, load_network, save_network

CONFIG = NetworkConfig(in_dim=6, n_clusters=3, hidden_dim=8, embedding_dim=4, n_heads=2, depth=2, projection=5)


def test_round_trip(tmp_path: Path) -> None:
    network = Network(CONFIG)
    network(torch.randn(20, 6))  # changes BatchNorm's running statistics
    save_network(network.eval(), tmp_path / "m", {"note": "x"})
    loaded, config = load_network(tmp_path / "m")
    X = torch.randn(5, 6)
    for output, loaded_output in zip(network(X), loaded(X), strict=True):
        assert torch.equal(output, loaded_output)
    assert config["note"] == "x"
    assert loaded.config == CONFIG
    assert sorted(path.name for path in (tmp_path / "m").iterdir()) == ["config.json", "model.safetensors"]


def test_missing_model_and_unknown_format(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="is not a saved model"):
        load_network(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps({"format": 99}))
    with pytest.raises(ValueError, match="format 99"):
        load_network(tmp_path)
