"""The objective of the released code against its arithmetic, written out step by step."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from cgmcr2.objectives import CgMCR2Objective, ReleasedObjective, cosine_topk


def released(feat: Tensor, pi: Tensor, bias: Tensor, eps: float, gamma: float, nz: int) -> dict[str, Tensor]:
    """The released code's arithmetic with dense matrices and LU determinants."""
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
    terms, expected = objective(Z, Pi), released(Z, Pi, objective.bias, 0.5, 100.0, nz)
    for name, value in expected.items():
        torch.testing.assert_close(getattr(terms, name), value, rtol=2e-6, atol=1e-9)
    total = -expected["R"] + expected["Rc"] + expected["cut"] + expected["penalty"]
    torch.testing.assert_close(terms.total, total, rtol=1e-6, atol=1e-6)
    inputs = (Z, Pi, objective.bias)
    gradients, expected_gradients = torch.autograd.grad(terms.total, inputs), torch.autograd.grad(total, inputs)
    torch.testing.assert_close(gradients, expected_gradients, rtol=1e-5, atol=1e-5)


def test_s_above_the_number_of_rows_keeps_all_entries() -> None:
    Z, Pi = batch()
    expected = released(Z, Pi, torch.zeros(1), 0.5, 100.0, 30)
    torch.testing.assert_close(ReleasedObjective(0.5, 100.0, 400).double()(Z, Pi).cut, expected["cut"])


def test_interface_equals_the_papers_objective() -> None:
    Z, Pi = batch()
    Pi = torch.stack([Pi, Pi.flip(0)])
    released_objective = ReleasedObjective(0.25, 100.0, 5).double()
    terms, paper = released_objective(Z, Pi), CgMCR2Objective(0.5, 100.0, 5)(Z, Pi)
    torch.testing.assert_close(2 * terms.R, paper.R)
    torch.testing.assert_close(2 * terms.Rc, paper.Rc)
    assert [term.shape for term in terms] == [term.shape for term in paper]
    off = released_objective(Z, Pi, use_rate=False, use_cluster_rate=False, use_cut=False)
    assert off.total.tolist() == [0, 0]
    edges = cosine_topk(Z, 4)
    torch.testing.assert_close(released_objective(Z, Pi, A=edges).cut, released_objective(Z, Pi, A=edges.dense()).cut)
    assert "gamma=100.0" in repr(released_objective)


def test_invalid_arguments() -> None:
    with pytest.raises(ValueError, match="s is 0"):
        ReleasedObjective(0.5, 100.0, 0)
    with pytest.raises(ValueError, match="eps is 0"):
        ReleasedObjective(0, 100.0, 3)
