"""SCAN: both losses against loops, selection of the head, and self-labelling."""

from __future__ import annotations

import math

import numpy as np
import torch

from cgmcr2.baselines.scan import SCAN, LinearHeads, scan_loss, self_label_loss
from cgmcr2.evaluation.metrics import clustering_accuracy


def memberships(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).mul(2).softmax(-1)


def test_loss_equals_loops() -> None:
    P, Q = memberships(2, 5, 3, seed=1), memberships(2, 5, 3, seed=2)
    for head in range(2):
        consistency = -sum(math.log(sum(float(P[head, i, c] * Q[head, i, c]) for c in range(3))) for i in range(5)) / 5
        sizes = [sum(float(P[head, i, c]) for i in range(5)) / 5 for c in range(3)]
        entropy = -sum(q * math.log(q) for q in sizes)
        assert math.isclose(float(scan_loss(P, Q, mu=3.0)[head]), consistency - 3 * entropy, rel_tol=1e-9)


def test_loss_is_lowest_for_confident_balanced_and_consistent_memberships() -> None:
    confident = torch.eye(3).repeat(4, 1)
    collapsed = torch.zeros(12, 3)
    collapsed[:, 0] = 1
    best = float(scan_loss(confident, confident, mu=5.0))
    assert math.isclose(best, -5 * math.log(3), rel_tol=1e-6)
    assert best < float(scan_loss(collapsed, collapsed, mu=5.0))
    assert best < float(scan_loss(confident, confident.roll(1, 0), mu=5.0))


def test_gradcheck() -> None:
    logits = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    Q = memberships(4, 3)
    assert torch.autograd.gradcheck(lambda x: scan_loss(x.softmax(-1), Q, 2.0), logits)


def test_self_labelling_uses_confident_rows_and_balances_clusters() -> None:
    P = torch.tensor([[0.999, 0.001], [0.995, 0.005], [0.002, 0.998], [0.6, 0.4]])
    logits = torch.tensor([[1.0, 0.0], [2.0, -1.0], [0.5, 0.5], [-9.0, 9.0]])
    losses = [-float(logits[i].log_softmax(0)[c]) for i, c in ((0, 0), (1, 0), (2, 1))]
    expected = ((losses[0] + losses[1]) / 2 + losses[2]) / 2
    assert math.isclose(float(self_label_loss(logits, P, 0.99)), expected, rel_tol=1e-6)
    assert float(self_label_loss(logits, P, 0.9999)) == 0.0


def test_selects_the_head_of_lowest_loss() -> None:
    y = np.arange(120) % 4
    X = np.eye(16)[y] + 0.15 * np.random.default_rng(0).standard_normal((120, 16))
    model = SCAN(4, n_heads=3, max_steps=150, self_label_steps=0).fit(X)
    assert clustering_accuracy(y, model.labels_) == 1
    network = model.network_
    assert isinstance(network, LinearHeads)
    rows = torch.from_numpy(X).float()
    with torch.no_grad():
        P = network.train()(rows).softmax(-1)
        nearest = (rows @ rows.T).fill_diagonal_(-9).argmax(1)
        losses = scan_loss(P, P[:, nearest], model.mu)
    assert float(losses[int(network.head)]) <= float(losses.min()) + 0.05


def test_self_labelling_raises_the_confidence_and_keeps_the_labels() -> None:
    y = np.arange(90) % 3
    X = np.eye(12)[y] + 0.1 * np.random.default_rng(1).standard_normal((90, 12))
    models = [SCAN(3, max_steps=40, self_label_steps=s, threshold=0.5).fit(X) for s in (0, 60)]
    with torch.no_grad():
        confidence = [float(m.network_(torch.from_numpy(X).float()).softmax(1).max(1).values.mean()) for m in models]
    assert confidence[1] > confidence[0]
    assert (models[0].labels_ == models[1].labels_).all()
