"""The whole objective is the sum of its terms, with any of them on or off."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from cgmcr2.objectives import CgMCR2Objective, cluster_coding_rate, coding_rate, cosine_topk, normalized_cut


def batch(heads: int | None = None) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    Z = 3 * torch.randn(40, 6, dtype=torch.float64, generator=generator)
    shape = (40, 4) if heads is None else (heads, 40, 4)
    return Z, torch.softmax(torch.randn(shape, dtype=torch.float64, generator=generator), -1)


@pytest.mark.parametrize("heads", [None, 1, 3])
@pytest.mark.parametrize("penalty", ["squared", "norm"])
def test_terms_are_the_functions(heads: int | None, penalty: Any) -> None:
    Z, Pi = batch(heads)
    unit = functional.normalize(Z)
    terms = CgMCR2Objective(0.5, 7.0, 5, penalty=penalty)(Z, Pi)
    cut = normalized_cut(Pi, cosine_topk(Z, 5), 7.0, penalty=penalty)
    torch.testing.assert_close(terms.R, coding_rate(unit, 0.5))
    torch.testing.assert_close(terms.Rc, cluster_coding_rate(unit, Pi, 0.5))
    torch.testing.assert_close(terms.cut + terms.penalty, cut)
    torch.testing.assert_close(terms.total, -terms.R + terms.Rc + cut)
    assert terms.total.shape == Pi.shape[:-2]
    assert terms.volumes.shape == (*Pi.shape[:-2], 4)
    assert terms.R.shape == ()


def test_terms_that_are_off_are_zero() -> None:
    Z, Pi = batch(2)
    objective = CgMCR2Objective(0.5, 7.0, 5)
    full = objective(Z, Pi)
    warm_up = objective(Z, Pi, use_cluster_rate=False)
    torch.testing.assert_close(warm_up.total, full.total - full.Rc)
    assert not warm_up.Rc.any()
    only_rates = objective(Z, Pi, use_cut=False)
    torch.testing.assert_close(only_rates.total, -full.R + full.Rc)
    assert not only_rates.cut.any()
    torch.testing.assert_close(objective(Z, Pi, use_rate=False).total, full.total + full.R)
    assert objective(Z, Pi, use_rate=False, use_cluster_rate=False, use_cut=False).total.tolist() == [0, 0]


@pytest.mark.parametrize("affinity", ["cosine_topk", "gaussian", "doubly_stochastic", "cosine"])
def test_every_affinity_trains(affinity: Any) -> None:
    Z, Pi = (tensor.requires_grad_() for tensor in batch())
    objective = CgMCR2Objective(0.5, 7.0, 5, affinity=affinity)
    objective(Z, Pi).total.backward()
    assert Z.grad is not None
    assert Z.grad.isfinite().all()
    assert Pi.grad is not None
    assert Pi.grad.any()


def test_the_cut_does_not_reach_the_embedding() -> None:
    Z, Pi = (tensor.requires_grad_() for tensor in batch())
    terms = CgMCR2Objective(0.5, 7.0, 5)(Z, Pi, use_rate=False, use_cluster_rate=False)
    assert torch.autograd.grad(terms.total, Z, allow_unused=True) == (None,)


def test_a_given_affinity_is_used() -> None:
    Z, Pi = batch()
    other = cosine_topk(torch.randn(40, 3, dtype=torch.float64), 2)
    objective = CgMCR2Objective(0.5, 7.0, 5)
    given = objective(Z, Pi, A=other)
    torch.testing.assert_close(given.cut + given.penalty, normalized_cut(Pi, other, 7.0))
    torch.testing.assert_close(objective(Z, Pi, A=other.dense()).total, given.total)


def test_autocast_changes_nothing() -> None:
    Z, Pi = (tensor.float() for tensor in batch())
    objective = CgMCR2Objective(0.5, 7.0, 5)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = objective(Z, Pi)
    for a, b in zip(inside, objective(Z, Pi), strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=0)
        assert a.dtype == torch.float32


def test_settings_are_shown_and_checked() -> None:
    assert "gamma=7.0" in repr(CgMCR2Objective(0.5, 7.0, 5))
    with pytest.raises(ValueError, match="affinity is 'knn'"):
        CgMCR2Objective(0.5, 7.0, 5, affinity="knn")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="needs s"):
        CgMCR2Objective(0.5, 7.0, None)
    with pytest.raises(ValueError, match=r"eps is -1"):
        CgMCR2Objective(-1, 7.0, 3)
