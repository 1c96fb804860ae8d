"""The objective against the functions that compute its terms, with each term switched on or off."""

from __future__ import annotations

from typing import get_args

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from cgmcr2.objectives import CgMCR2Objective, cluster_coding_rate, coding_rate, cosine_topk, normalized_cut
from cgmcr2.objectives.cgmcr2 import Affinity
from cgmcr2.objectives.normalized_cut import Penalty


def batch(heads: int | None = None) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    Z = 3 * torch.randn(40, 6, dtype=torch.float64, generator=generator)
    shape = (40, 4) if heads is None else (heads, 40, 4)
    return Z, torch.softmax(torch.randn(shape, dtype=torch.float64, generator=generator), -1)


@pytest.mark.parametrize("heads", [None, 1, 3])
@pytest.mark.parametrize("penalty", get_args(Penalty))
def test_terms_equal_the_functions(heads: int | None, penalty: Penalty) -> None:
    Z, Pi = batch(heads)
    unit = functional.normalize(Z)
    terms = CgMCR2Objective(0.5, 7.0, 5, penalty=penalty)(Z, Pi)
    cut = normalized_cut(Pi, cosine_topk(Z, 5), 7.0, penalty=penalty)
    torch.testing.assert_close(terms.R, coding_rate(unit, 0.5))
    torch.testing.assert_close(terms.Rc, cluster_coding_rate(unit, Pi, 0.5))
    torch.testing.assert_close(terms.cut + terms.penalty, cut)
    torch.testing.assert_close(terms.total, -terms.R + terms.Rc + cut)
    assert terms.total.shape == Pi.shape[:-2]
    assert terms.R.shape == ()


def test_terms_that_are_switched_off_are_zero() -> None:
    Z, Pi = batch(2)
    objective = CgMCR2Objective(0.5, 7.0, 5)
    full = objective(Z, Pi)
    warmup = objective(Z, Pi, use_cluster_rate=False)
    torch.testing.assert_close(warmup.total, full.total - full.Rc)
    assert not warmup.Rc.any()
    rates = objective(Z, Pi, use_cut=False)
    torch.testing.assert_close(rates.total, -full.R + full.Rc)
    assert not rates.cut.any()
    torch.testing.assert_close(objective(Z, Pi, use_rate=False).total, full.total + full.R)
    assert objective(Z, Pi, use_rate=False, use_cluster_rate=False, use_cut=False).total.tolist() == [0, 0]


@pytest.mark.parametrize("affinity", get_args(Affinity))
def test_gradient_with_each_affinity(affinity: Affinity) -> None:
    Z, Pi = (tensor.requires_grad_() for tensor in batch())
    objective = CgMCR2Objective(0.5, 7.0, 5, affinity=affinity)
    objective(Z, Pi).total.backward()
    assert Z.grad is not None
    assert Z.grad.isfinite().all()
    assert Pi.grad is not None
    assert Pi.grad.any()


def test_cut_has_no_gradient_with_respect_to_the_embedding() -> None:
    Z, Pi = (tensor.requires_grad_() for tensor in batch())
    terms = CgMCR2Objective(0.5, 7.0, 5)(Z, Pi, use_rate=False, use_cluster_rate=False)
    assert torch.autograd.grad(terms.total, Z, allow_unused=True) == (None,)


def test_affinity_can_be_passed() -> None:
    Z, Pi = batch()
    A = cosine_topk(torch.randn(40, 3, dtype=torch.float64), 2)
    objective = CgMCR2Objective(0.5, 7.0, 5)
    terms = objective(Z, Pi, A=A)
    torch.testing.assert_close(terms.cut + terms.penalty, normalized_cut(Pi, A, 7.0))
    torch.testing.assert_close(objective(Z, Pi, A=A.dense()).total, terms.total)


def test_autocast_changes_nothing() -> None:
    Z, Pi = (tensor.float() for tensor in batch())
    objective = CgMCR2Objective(0.5, 7.0, 5)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = objective(Z, Pi)
    for a, b in zip(inside, objective(Z, Pi), strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=0)
        assert a.dtype == torch.float32


def test_repr_and_invalid_arguments() -> None:
    assert "gamma=7.0" in repr(CgMCR2Objective(0.5, 7.0, 5))
    with pytest.raises(ValueError, match="affinity is 'knn'"):
        CgMCR2Objective(0.5, 7.0, 5, affinity="knn")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="penalty is 'cubed'; choose one of 'squared', 'norm'"):
        CgMCR2Objective(0.5, 7.0, 5, penalty="cubed")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="needs s"):
        CgMCR2Objective(0.5, 7.0, None)
    with pytest.raises(ValueError, match=r"eps is -1"):
        CgMCR2Objective(-1, 7.0, 3)
