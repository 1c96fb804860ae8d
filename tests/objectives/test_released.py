"""The reference objective against the released code's steps, one by one in the order in which it takes them."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from cgmcr2.objectives import CgMCR2Objective, ReleasedObjective, cosine_topk


def released(feat: Tensor, pi: Tensor, bias: Tensor, eps: float, gamma: float, nz: int) -> dict[str, Tensor]:
    """The released code's arithmetic, written out with dense matrices and LU determinants."""
    n, d = feat.shape
    k = pi.shape[1]
    z = functional.normalize(feat, dim=1)
    expansion = torch.logdet(torch.eye(d).double() + d / (n * eps) * (z.T @ z)) / 2
    compression = torch.zeros(()).double()
    for j in range(k):
        size = pi[:, j].sum() + 1e-8
        compression = compression + size / (2 * n) * torch.logdet(
            torch.eye(d).double() + d / (size * eps) * (z.T @ torch.diag(pi[:, j]) @ z)
        )
    raw = feat @ feat.T
    aff = 1.0 / k * (torch.sign(raw) * torch.relu(torch.abs(raw) - bias))
    aff = torch.where(aff >= aff.topk(nz, dim=1).values.min(dim=1).values[:, None], aff, torch.zeros_like(aff))
    aff = functional.normalize(aff, dim=1)
    D = torch.diag(aff.sum(dim=0))
    H = pi @ torch.diag(1.0 / torch.sqrt((D @ pi).sum(dim=0) + 1e-6))
    return {
        "R": expansion,
        "Rc": compression,
        "cut": torch.trace(H.T @ (D - aff) @ H),
        "penalty": gamma * torch.norm(H.T @ D @ H - torch.eye(k).double()) / k,
    }


def batch() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    Z = 0.5 + torch.randn(30, 5, dtype=torch.float64, generator=generator)
    return Z, torch.softmax(torch.randn(30, 4, dtype=torch.float64, generator=generator), -1)


@pytest.mark.parametrize("bias", [0.0, 0.4])
@pytest.mark.parametrize("nz", [3, 25])
def test_equals_the_released_code(nz: int, bias: float) -> None:
    Z, Pi = (tensor.requires_grad_() for tensor in batch())
    Z.data[11] = Z.data[10]  # a tie in every row
    objective = ReleasedObjective(0.5, 100.0, nz).double()
    objective.bias.data.fill_(bias)
    terms, want = objective(Z, Pi), released(Z, Pi, objective.bias, 0.5, 100.0, nz)
    for name, value in want.items():
        torch.testing.assert_close(getattr(terms, name), value, rtol=2e-6, atol=1e-9)
    total = -want["R"] + want["Rc"] + want["cut"] + want["penalty"]
    torch.testing.assert_close(terms.total, total, rtol=1e-6, atol=1e-6)
    inputs = (Z, Pi, objective.bias)
    for got, expected in zip(torch.autograd.grad(terms.total, inputs), torch.autograd.grad(total, inputs), strict=True):
        torch.testing.assert_close(got, expected, rtol=1e-5, atol=1e-5)


def test_more_entries_than_rows_keeps_all() -> None:
    Z, Pi = batch()
    want = released(Z, Pi, torch.zeros(1), 0.5, 100.0, 30)
    torch.testing.assert_close(ReleasedObjective(0.5, 100.0, 400).double()(Z, Pi).cut, want["cut"])


def test_same_face_as_ours() -> None:
    Z, Pi = batch()
    Pi = torch.stack([Pi, Pi.flip(0)])
    reference, ours = ReleasedObjective(0.25, 100.0, 5).double(), CgMCR2Objective(0.5, 100.0, 5)
    theirs, paper = reference(Z, Pi), ours(Z, Pi)
    torch.testing.assert_close(2 * theirs.R, paper.R)
    torch.testing.assert_close(2 * theirs.Rc, paper.Rc)
    for a, b in zip(theirs, paper, strict=True):
        assert a.shape == b.shape
    off = reference(Z, Pi, use_rate=False, use_cluster_rate=False, use_cut=False)
    assert off.total.tolist() == [0, 0]
    edges = cosine_topk(Z, 4)
    torch.testing.assert_close(reference(Z, Pi, A=edges).cut, reference(Z, Pi, A=edges.dense()).cut)
    assert "gamma=100.0" in repr(reference)


def test_bad_settings_are_named() -> None:
    with pytest.raises(ValueError, match="s is 0"):
        ReleasedObjective(0.5, 100.0, 0)
    with pytest.raises(ValueError, match="eps is 0"):
        ReleasedObjective(0, 100.0, 3)
