"""The preset ``reference`` against an independent transcription of the released code."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch
from torch import Tensor

from cgmcr2._random import mix
from cgmcr2.model import Network
from cgmcr2.training import resolve, train
from cgmcr2.training.batches import Batches
from cgmcr2.training.precompute import Precomputed
from cgmcr2.training.state import TrainingState

N, K, D, SEED = 100, 3, 8, 0


@pytest.fixture(scope="module")
def released() -> ModuleType:
    path = Path(__file__).parents[2] / "benchmarks" / "released_code.py"
    spec = importlib.util.spec_from_file_location("released_code", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def copy_weights(source: Network, target: torch.nn.Module) -> None:
    """Copy the weights of our network, whose hidden layers are stacked, into the transcription."""
    weights, h = source.state_dict(), source.config.hidden_dim
    renamed = {"threshold": torch.zeros(1)}
    for name, value in weights.items():
        layer, kind = name.split(".")
        if layer == "first_hidden":
            renamed[f"feature_head.0.{kind}"], renamed[f"cluster_head.0.{kind}"] = value[:h], value[h:]
        elif layer == "cluster_out":
            renamed[f"cluster_head.2.{kind}"] = value[0] if kind == "weight" else value[0, 0]
        else:
            new = {"pre_feature": "projector.0", "batch_norm": "projector.1", "feature_out": "feature_head.2"}[layer]
            renamed[f"{new}.{kind}"] = value
    target.load_state_dict(renamed)


def test_reference_trains_the_same_network_as_the_released_code(released: ModuleType) -> None:
    rng = np.random.default_rng(0)
    X = (3 * rng.standard_normal((K, D))[rng.integers(K, size=N)] + rng.standard_normal((N, D))).astype(np.float32)
    options = released.Options(
        hidden_dim=16,
        embedding_dim=6,
        gamma=30.0,
        entries=20,
        lr=1e-3,
        weight_decay=0.1,
        batch_size=30,
        epochs=6,
        warmup_epochs=3,
    )
    overrides = {"hidden_dim": 16, "embedding_dim": 6, "s": 20, "lr": 1e-3, "weight_decay": 0.1, "batch_size": 30}
    settings = resolve("reference", N, K, D, {**overrides, "warmup_epochs": 3, "finetune_epochs": 3})
    start = TrainingState.create(settings, (D,), K, 20, Precomputed(), SEED, torch.device("cpu"))
    network = released.TwoHeadNetwork(D, K, options)
    copy_weights(start.network, network)

    def same_draws(epoch: int) -> Iterator[tuple[Tensor, Tensor]]:
        batches = Batches(N, 3, SEED, batch_size=30)
        for step in range(3 * epoch, 3 * epoch + 3):
            generator = torch.Generator().manual_seed(mix(SEED, step))
            yield torch.from_numpy(batches.rows(step)), -torch.empty(30, K).exponential_(generator=generator).log()

    expected = released.train(network, torch.from_numpy(X), same_draws, options)
    trained = train(X, K, settings, seed=SEED, precision="float32")
    assert [record["loss"] for record in trained.history] == pytest.approx(expected, rel=1e-4)
    with torch.no_grad():
        Z, logits = network.eval()(torch.from_numpy(X))
        ours = trained.network(torch.from_numpy(X))
    torch.testing.assert_close(ours[0], Z, rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(ours[1][0], logits, rtol=1e-3, atol=1e-3)
