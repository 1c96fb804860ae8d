"""TEMI: the loss against loops, its gradient, and the heads."""

from __future__ import annotations

import math

import numpy as np
import torch

from cgmcr2.baselines.temi import TEMI, BottleneckHeads, pointwise_mutual_information, temi_loss
from cgmcr2.evaluation.metrics import clustering_accuracy


def memberships(*shape: int, seed: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).mul(2).softmax(-1)


def test_loss_equals_loops() -> None:
    h, b, k, beta = 2, 4, 3, 0.6
    S, S2, T, T2 = (memberships(h, b, k, seed=seed) for seed in range(4))
    p = memberships(h, k, seed=5)

    def pmi(a: torch.Tensor, c: torch.Tensor, head: int, i: int) -> float:
        return math.log(sum(float(a[head, i, j] * c[head, i, j]) ** beta / float(p[head, j]) for j in range(k)))

    weights = [sum(float(T[g, i] @ T2[g, i]) for g in range(h)) / h for i in range(b)]
    for head in range(h):
        expected = -sum(w * (pmi(S, T2, head, i) + pmi(S2, T, head, i)) / 2 for i, w in enumerate(weights)) / b
        assert math.isclose(float(temi_loss((S, S2), (T, T2), p, beta)[head]), expected, rel_tol=1e-9)


def test_beta_of_one_gives_the_pointwise_mutual_information() -> None:
    P, Q = torch.tensor([[0.7, 0.3]]), torch.tensor([[0.2, 0.8]])
    pmi = pointwise_mutual_information(P, Q, torch.tensor([0.5, 0.5]), beta=1.0)
    assert math.isclose(float(pmi), math.log(0.7 * 0.2 / 0.5 + 0.3 * 0.8 / 0.5), rel_tol=1e-6)


def test_gradcheck_with_respect_to_the_student() -> None:
    S, S2 = (memberships(2, 3, 4, seed=seed).requires_grad_() for seed in (0, 1))
    T, T2 = (memberships(2, 3, 4, seed=seed) for seed in (2, 3))
    assert torch.autograd.gradcheck(lambda a, b: temi_loss((a, b), (T, T2), torch.full((2, 4), 0.25), 0.6), (S, S2))


def test_gradient_is_finite_where_memberships_underflow() -> None:
    logits = torch.tensor([[0.0, 200.0]], requires_grad=True)  # the first membership is 0 in float32
    P = logits.softmax(-1)
    pointwise_mutual_information(P, P.detach(), torch.tensor([0.5, 0.5]), beta=0.6).sum().backward()
    assert P[0, 0] == 0
    assert logits.grad is not None
    assert logits.grad.isfinite().all()


def test_heads_are_independent() -> None:
    heads = BottleneckHeads(6, 6, 3, heads=2, hidden=5, bottleneck=4)
    X = torch.randn(7, 6)
    before = heads(X)
    with torch.no_grad():
        heads.first.weight[:5] += 1  # of the first head
    after = heads(X)
    assert not torch.allclose(before[0], after[0])
    torch.testing.assert_close(before[1], after[1])
    torch.testing.assert_close(heads.eval()(X), after[0])


def test_separates_and_predicts_clear_clusters() -> None:
    y = np.arange(160) % 4
    random = np.random.default_rng(0)
    X = np.eye(16)[y] + 0.15 * random.standard_normal((160, 16))
    new = np.eye(16)[y] + 0.15 * random.standard_normal((160, 16))
    model = TEMI(
        4, n_heads=2, hidden_dim=64, bottleneck_dim=32, max_steps=150, warmup_steps=30, lr=4e-3, momentum=0.95
    ).fit(X)
    assert clustering_accuracy(y, model.labels_) > 0.95
    assert clustering_accuracy(y, model.predict(new)) > 0.95
