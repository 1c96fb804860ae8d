"""MLC and CPP: the objective against the printed formula, and the choice of k."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from cgmcr2._arrays import unit_rows
from cgmcr2.baselines import CPP, MLC
from cgmcr2.baselines.mlc import TwoHeads, coding_length, mlc_loss, sinkhorn_membership


def unit(n: int, d: int, seed: int = 0) -> torch.Tensor:
    return F.normalize(torch.randn(n, d, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)))


def rate(Z: torch.Tensor, weights: torch.Tensor, eps2: float) -> float:
    """``logdet(I + d / (sum w eps^2) sum_i w_i z_i z_i')``, row by row."""
    d = Z.shape[1]
    M = torch.eye(d, dtype=Z.dtype)
    for z, w in zip(Z, weights, strict=True):
        M += d / (weights.sum() * eps2) * w * torch.outer(z, z)
    return float(torch.linalg.eigvalsh(M).log().sum())


def test_membership_is_a_doubly_stochastic_scaling() -> None:
    C = unit(12, 4)
    Pi = sinkhorn_membership(C, 0.175, 201)
    torch.testing.assert_close(Pi.sum(1), torch.ones(12, dtype=torch.float64))
    torch.testing.assert_close(Pi.sum(0), torch.ones(12, dtype=torch.float64), atol=1e-6, rtol=0)
    ratio = Pi * Pi.T / (Pi.diagonal()[:, None] * Pi.diagonal())  # the scaling cancels
    torch.testing.assert_close(ratio, (2 * ((C @ C.T).abs() - 1) / 0.175).exp())


def test_loss_equals_the_printed_formula() -> None:
    Z, C = unit(10, 4), unit(10, 4, seed=1)
    Pi = sinkhorn_membership(C, 0.2, 5)
    n = len(Z)
    Rc = sum(float(Pi[:, j].sum()) / n * rate(Z, Pi[:, j], 0.1) for j in range(n))
    expected = (Rc - rate(Z, torch.ones(n), 0.1)) / 2 + 0.05 / 2 * float((Pi**2).sum())
    assert float(mlc_loss(Z, C, 0.1**0.5, 0.2, 5, 0.05)) == pytest.approx(expected, rel=1e-3)


def test_cluster_head_is_initialised_as_the_feature_head() -> None:
    X = np.random.default_rng(0).standard_normal((40, 6)).astype(np.float32)
    model = MLC(3, hidden_dim=16, embedding_dim=4, max_steps=0, warmup_steps=6, batch_size=16).fit(X)
    assert isinstance(model.network_, TwoHeads)
    torch.testing.assert_close(model.network_.cluster.weight, model.network_.feature.weight)


def test_coding_length_by_hand_and_minimum_at_the_true_number() -> None:
    random = np.random.default_rng(0)
    Z = np.eye(8)[np.arange(400) % 4] + 0.02 * random.standard_normal((400, 8))
    Z = unit_rows(Z).astype(np.float32)
    lengths = {k: coding_length(Z, np.arange(400) % k, 0.5) for k in (1, 2, 4, 8)}
    assert min(lengths, key=lambda k: lengths[k]) == 4
    parts = [torch.from_numpy(Z[np.arange(400) % 2 == label]).double() for label in range(2)]
    expected = sum((200 + 8) / 2 * rate(part, torch.ones(200), 0.25) + 200 * np.log(2) for part in parts)
    assert lengths[2] == pytest.approx(expected, rel=1e-4)


def test_cpp_chooses_the_number_of_clusters() -> None:
    random = np.random.default_rng(0)
    X = np.eye(12)[np.arange(480) % 4] + 0.05 * random.standard_normal((480, 12))
    parameters = {"hidden_dim": 32, "embedding_dim": 8, "batch_size": 64, "lr": 3e-3, "candidates": (2, 4, 8, 16)}
    model = CPP("auto", max_steps=60, **parameters).fit(X)
    assert model.n_clusters_ == 4
    assert set(model.coding_lengths_) == {2, 4, 8, 16}
    assert len(set(model.labels_)) == 4
