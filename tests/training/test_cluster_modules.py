"""The cluster modules of the paper's ablation."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from cgmcr2 import CgMCR2
from cgmcr2.evaluation import score_labels
from cgmcr2.objectives import cluster_coding_rate, coding_rate
from cgmcr2.training import Settings, resolve, train
from cgmcr2.training.cluster_modules import BatchClustering, ClusterHead, cluster_rows

MODULES = ("k-means", "spectral", "ensc")


def blobs(n: int = 90, D: int = 8, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    y = np.arange(n) % 3
    return (3 * np.eye(D)[y] + 0.3 * random.standard_normal((n, D))).astype(np.float32), y


@pytest.mark.parametrize("module", MODULES)
def test_each_module_finds_the_clusters_of_a_batch(module: str) -> None:
    X, y = blobs()
    settings = Settings(cluster_module=module, s=5)  # type: ignore[arg-type]
    Z = torch.from_numpy(X).requires_grad_()
    Pi = BatchClustering(settings, 3, warmup_steps=0, seed=2**40).memberships(Z, torch.empty(0), step=0)
    assert Pi.shape == (1, 90, 3)
    assert not Pi.requires_grad
    assert torch.equal(Pi.sum(-1), torch.ones(1, 90))
    assert score_labels(y, Pi[0].argmax(1).numpy()).acc == 1


def test_the_noise_of_the_cluster_head_depends_on_seed_and_step() -> None:
    def memberships(seed: int, step: int) -> torch.Tensor:
        head = ClusterHead(Settings(membership="gumbel"), seed, torch.device("cpu"))
        return head.memberships(torch.empty(0), torch.zeros(2, 5, 3), step)

    assert torch.equal(memberships(0, 1), memberships(0, 1))
    assert not torch.equal(memberships(0, 1), memberships(0, 2))
    assert not torch.equal(memberships(0, 1), memberships(1, 1))


@pytest.mark.parametrize("module", MODULES)
def test_fewer_rows_than_clusters(module: str) -> None:
    labels = cluster_rows(blobs(4, 3)[0], 6, module, 10, 0)
    assert len(labels) == 4
    assert set(labels) <= set(range(4))


@pytest.mark.parametrize("module", MODULES)
def test_the_estimator_predicts_by_the_nearest_direction_and_is_saved(module: str, tmp_path: Path) -> None:
    (X, y), (new, y_new) = blobs(), blobs(30, seed=1)
    model = CgMCR2(
        3, settings={"cluster_module": module, "hidden_dim": 32, "warmup_epochs": 3, "finetune_epochs": 5}
    ).fit(X)
    assert score_labels(y, model.labels_).acc == 1
    assert score_labels(y_new, model.predict(new)).acc == 1
    directions = np.stack([model.transform(X)[model.labels_ == l].mean(0) for l in range(3)])
    nearest = (model.transform(new) @ F.normalize(torch.from_numpy(directions)).numpy().T).argmax(1)
    np.testing.assert_array_equal(model.predict(new), nearest)
    model.save(tmp_path)
    np.testing.assert_array_equal(CgMCR2.load(tmp_path).predict_proba(new), model.predict_proba(new))


def test_the_loss_is_the_rate_reduction() -> None:
    X, _ = blobs()
    settings = Settings(
        cluster_module="k-means", hidden_dim=16, embedding_dim=4, batch_size=90, warmup_epochs=2, finetune_epochs=1
    )
    trained = train(X, 3, settings, precision="float32")
    first, last = trained.history[0], trained.history[-1]
    assert first["stage"] == "warm-up"
    assert first["loss"] == pytest.approx(-first["R"])
    assert "module_seconds" not in first
    assert last["cut"] == last["penalty"] == 0
    assert last["loss"] == pytest.approx(last["Rc"] - last["R"], abs=1e-4)
    assert last["module_seconds"] > 0
    # without an effective update, the rates of the first step are those of the final embedding
    frozen = train(X, 3, dataclasses.replace(settings, lr=1e-12, warmup_epochs=0), precision="float32")
    Z = frozen.network.train().embed(torch.from_numpy(X))[0]
    Pi = F.one_hot(torch.from_numpy(cluster_rows(Z.detach().numpy(), 3, "k-means", 10, 0)), 3).float()
    record = frozen.history[0]
    assert record["R"] == pytest.approx(coding_rate(Z, 0.5).item(), rel=1e-4)
    assert record["Rc"] == pytest.approx(cluster_coding_rate(Z, Pi, 0.5).item(), rel=1e-2)


def test_presets_drop_head_settings_and_refuse_given_ones() -> None:
    settings = resolve("auto", 1000, 10, 64, {"cluster_module": "spectral"})
    assert (settings.n_heads, settings.consensus_weight) == (1, 0.0)
    with pytest.raises(ValueError, match="cluster_module='ensc' has no cluster heads, but n_heads is 4"):
        resolve("auto", 1000, 10, 64, {"cluster_module": "ensc", "n_heads": 4})
    with pytest.raises(ValueError, match="cluster_module must be one of 'head', 'k-means', 'spectral', 'ensc'"):
        Settings(cluster_module="neural")  # type: ignore[arg-type]
