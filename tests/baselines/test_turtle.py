"""TURTLE: both losses against loops, several feature spaces, and restarts."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from cgmcr2.baselines.turtle import TURTLE, LinearSpaces, fit_loss, turtle_loss
from cgmcr2.evaluation.metrics import clustering_accuracy


def test_loss_equals_loops() -> None:
    generator = torch.Generator().manual_seed(0)
    logits = [torch.randn(4, 3, generator=generator, dtype=torch.float64) for _ in range(2)]
    P = [torch.randn(4, 3, generator=generator, dtype=torch.float64).softmax(1) for _ in range(2)]
    fit = 0.0
    for space in logits:
        for i in range(4):
            log_p = [float(space[i, c]) - math.log(sum(math.exp(float(v)) for v in space[i])) for c in range(3)]
            fit -= sum(float(P[0][i, c] + P[1][i, c]) / 2 * log_p[c] for c in range(3)) / 4
    entropy = -sum(q * math.log(q) for part in P for q in part.mean(0).tolist())
    assert math.isclose(float(fit_loss(logits, (P[0] + P[1]) / 2)), fit, rel_tol=1e-9)
    assert math.isclose(float(turtle_loss(logits, P, gamma=10.0)), fit - 10 * entropy, rel_tol=1e-9)


def test_gradients_of_the_classifiers_equal_autograd() -> None:
    torch.manual_seed(0)
    classifiers = LinearSpaces([3, 4], 2, weight_norm=False)
    spaces, labels = [torch.randn(6, 3), torch.randn(6, 4)], torch.randn(6, 2).softmax(1)
    expected = torch.autograd.grad(fit_loss(classifiers.logits(spaces), labels), list(classifiers.parameters()))
    classifiers.set_fit_gradients(spaces, labels)
    for parameter, gradient in zip(classifiers.parameters(), expected, strict=True):
        torch.testing.assert_close(parameter.grad, gradient)


def test_entropy_prevents_a_single_label() -> None:
    collapsed, halves = torch.zeros(4, 2), torch.zeros(4, 2)
    collapsed[:, 0] = 1
    halves[:2, 0] = halves[2:, 1] = 1
    perfect = [(20 * P - 10) for P in (collapsed, halves)]
    assert fit_loss([perfect[0]], collapsed) <= fit_loss([perfect[1]], halves) + 1e-6
    assert turtle_loss([perfect[1]], [halves], 1.0) < turtle_loss([perfect[0]], [collapsed], 1.0)


def blobs(classes: np.ndarray, D: int, seed: int) -> np.ndarray:
    return np.eye(D)[classes] + 0.15 * np.random.default_rng(seed).standard_normal((len(classes), D))


def test_two_spaces_separate_what_neither_separates_alone() -> None:
    y = np.random.default_rng(0).permutation(np.arange(160) % 4)
    # the first space does not separate 0 and 1, the second does not separate 2 and 3
    X = np.hstack([blobs(np.array([0, 0, 1, 2])[y], 8, 1), blobs(np.array([0, 1, 2, 2])[y], 12, 2)])
    labels = TURTLE(4, widths=(8, 12), max_steps=300, inner_steps=5, warm_start=True).fit_predict(X)
    assert clustering_accuracy(y, labels) > 0.95


def test_rows_of_each_space_are_scaled() -> None:
    spaces = LinearSpaces([3, 4], 2, weight_norm=True)
    first, second = spaces.split(torch.rand(5, 7) * 100)
    torch.testing.assert_close(first.norm(dim=1), torch.full((5,), math.sqrt(3) / 2))
    torch.testing.assert_close(second.norm(dim=1), torch.ones(5))


def test_classifiers_restart_by_default() -> None:
    y = np.arange(90) % 3
    labels = TURTLE(3, max_steps=60, inner_lr=0.01).fit_predict(blobs(y, 10, 3))
    assert clustering_accuracy(y, labels) > 0.95


def test_invalid_widths() -> None:
    with pytest.raises(ValueError, match=r"widths is \[4, 4\], but X has 10 columns"):
        TURTLE(3, widths=(4, 4)).fit(blobs(np.arange(9) % 3, 10, 0))
