"""NMCE: the objective against the printed formula, and training without a second view."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from cgmcr2.baselines.nmce import NMCE, nmce_loss


def unit(n: int, d: int, seed: int = 0) -> torch.Tensor:
    return F.normalize(torch.randn(n, d, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)))


def rate(Z: torch.Tensor, weights: torch.Tensor, eps2: float) -> float:
    """``logdet(I + d / (sum w eps^2) sum_i w_i z_i z_i')``, row by row."""
    d = Z.shape[1]
    M = torch.eye(d, dtype=Z.dtype)
    for z, w in zip(Z, weights, strict=True):
        M += d / (weights.sum() * eps2) * w * torch.outer(z, z)
    return float(torch.linalg.eigvalsh(M).log().sum())


def test_loss_equals_the_printed_formula() -> None:
    Z = torch.stack([unit(10, 4), unit(10, 4, seed=1)])
    Pi = torch.rand(2, 10, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    Pi = Pi / Pi.sum(-1, keepdim=True)
    mean, P = F.normalize((Z[0] + Z[1]) / 2), (Pi[0] + Pi[1]) / 2
    Rc = sum(float(P[:, j].sum()) / 10 * rate(mean, P[:, j], 0.5) for j in range(3))
    expected = (Rc - rate(mean, torch.ones(10), 0.5)) / 2
    assert float(nmce_loss(Z, Pi, 0.5**0.5)) == pytest.approx(expected, rel=1e-5)


def test_without_a_second_view() -> None:
    X = np.random.default_rng(0).standard_normal((40, 6)).astype(np.float32)
    model = NMCE(3, hidden_dim=8, embedding_dim=4, n_neighbors=0, max_steps=2).fit(X)
    assert len(model.history_) == 3
