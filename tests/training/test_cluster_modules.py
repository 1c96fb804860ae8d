"""The other cluster modules: what they find, what is learned from it, and who labels new rows."""

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
from cgmcr2.training.cluster_modules import cluster, memberships

MODULES = ("k-means", "spectral", "ensc")


def blobs(n: int = 90, D: int = 8, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    y = np.arange(n) % 3
    return (3 * np.eye(D)[y] + 0.3 * random.standard_normal((n, D))).astype(np.float32), y


@pytest.mark.parametrize("module", MODULES)
def test_each_module_finds_the_clusters_of_a_batch(module: str) -> None:
    X, y = blobs()
    Pi = memberships(torch.from_numpy(X).requires_grad_(), 3, module, 5, seed=2**40)
    assert Pi.shape == (1, 90, 3)
    assert not Pi.requires_grad
    assert torch.equal(Pi.sum(-1), torch.ones(1, 90))
    assert score_labels(y, Pi[0].argmax(1).numpy()).acc == 1


@pytest.mark.parametrize("module", MODULES)
def test_fewer_rows_than_clusters_are_no_error(module: str) -> None:
    assert len(cluster(F.normalize(torch.randn(4, 3)).numpy(), 6, module, 10, 0)) == 4


@pytest.mark.parametrize("module", MODULES)
def test_the_estimator_predicts_by_the_nearest_direction_and_is_saved(module: str, tmp_path: Path) -> None:
    (X, y), (new, y_new) = blobs(), blobs(30, seed=1)
    model = CgMCR2(3, cluster_module=module, hidden_dim=32, warmup_epochs=3, finetune_epochs=5).fit(X)
    assert score_labels(y, model.labels_).acc == 1
    assert score_labels(y_new, model.predict(new)).acc == 1
    directions = np.stack([model.transform(X)[model.labels_ == l].mean(0) for l in range(3)])
    nearest = (model.transform(new) @ F.normalize(torch.from_numpy(directions)).numpy().T).argmax(1)
    np.testing.assert_array_equal(model.predict(new), nearest)
    model.save(tmp_path)
    np.testing.assert_array_equal(CgMCR2.load(tmp_path).predict_proba(new), model.predict_proba(new))


def test_the_loss_is_the_rate_reduction_and_its_time_is_kept() -> None:
    X, _ = blobs()
    settings = Settings(
        cluster_module="k-means", hidden_dim=16, embedding_dim=4, batch_size=90, warmup_epochs=2, finetune_epochs=1
    )
    trained = train(X, 3, settings)
    first, last = trained.history[0], trained.history[-1]
    assert first["stage"] == "warm-up"
    assert first["loss"] == pytest.approx(-first["R"])
    assert "module_seconds" not in first
    assert last["cut"] == last["penalty"] == 0
    assert last["loss"] == pytest.approx(last["Rc"] - last["R"], abs=1e-4)
    assert 0 < last["module_seconds"] < last["seconds"] * len(trained.history)
    # one step of lr 0 later the same rows, clustered by hand, have the same rates
    frozen = train(X, 3, dataclasses.replace(settings, lr=1e-12, warmup_epochs=0))
    Z = frozen.network.train().embed(torch.from_numpy(X))[0]
    Pi = memberships(Z, 3, "k-means", 10, 0)
    record = frozen.history[0]
    assert record["R"] == pytest.approx(coding_rate(Z, 0.5).item(), rel=1e-4)
    assert record["Rc"] == pytest.approx(cluster_coding_rate(Z, Pi, 0.5).item(), rel=1e-2)


def test_a_preset_drops_what_concerns_heads_and_refuses_it_where_it_is_given() -> None:
    settings = resolve("auto", 1000, 10, 64, {"cluster_module": "spectral"})
    assert (settings.n_heads, settings.guide, settings.act_on_collapse) == (1, 0.0, False)
    with pytest.raises(ValueError, match="cluster_module='ensc' has no cluster heads, but n_heads is 4"):
        resolve("auto", 1000, 10, 64, {"cluster_module": "ensc", "n_heads": 4})
    with pytest.raises(ValueError, match="cluster_module must be one of 'head', 'k-means', 'spectral', 'ensc'"):
        Settings(cluster_module="neural")  # type: ignore[arg-type]
