"""Gumbel-softmax samples: distribution, limits of the temperature, reproducibility and precision."""

from __future__ import annotations

import torch

from cgmcr2.model import gumbel_softmax


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_samples_follow_the_categorical_distribution() -> None:
    p = torch.tensor([0.6, 0.3, 0.1])
    Pi = gumbel_softmax(p.log().expand(40_000, 3), generator=seeded(0))
    frequencies = torch.bincount(Pi.argmax(-1), minlength=3) / 40_000  # the Gumbel-max trick
    torch.testing.assert_close(frequencies, p, atol=0.01, rtol=0)


def test_low_temperature_gives_one_hot_and_high_temperature_uniform_rows() -> None:
    logits = torch.randn(100, 5, generator=seeded(1))
    assert gumbel_softmax(logits, 0.01, generator=seeded(2)).max(-1).values.mean() > 0.98
    assert gumbel_softmax(logits, 1000.0, generator=seeded(2)).max(-1).values.max() < 0.21


def test_reproducible_and_at_least_float32() -> None:
    logits = torch.randn(10, 4)
    assert torch.equal(gumbel_softmax(logits, generator=seeded(3)), gumbel_softmax(logits, generator=seeded(3)))
    assert gumbel_softmax(logits.bfloat16()).dtype == torch.float32
    assert gumbel_softmax(logits.double()).dtype == torch.float64


def test_extreme_logits_have_a_finite_gradient() -> None:
    logits = torch.tensor([[1e4, -1e4, 0.0]], requires_grad=True)
    gumbel_softmax(logits, 0.1).sum().backward()
    assert logits.grad is not None
    assert logits.grad.isfinite().all()
