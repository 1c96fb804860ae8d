import math

import numpy as np
import torch

from cgmcr2.pretrain.method import Batch
from cgmcr2.pretrain.scan_images import NeighbourConsistency, SelfLabelling


def test_consistency_equals_brute_force_and_companions_are_neighbours():
    torch.manual_seed(0)
    nearest = torch.tensor([[1, 2], [0, 2], [3, 0], [2, 1]])
    model = NeighbourConsistency(torch.nn.Flatten(), torch.nn.Linear(3, 2), nearest, mu=5.0).requires_grad_(False)
    batch = Batch(np.array([2, 0, 3]), 7)
    (companions,) = model.companions(batch)
    assert all(companion in nearest[row] for row, companion in zip(batch.rows, companions, strict=True))
    views = [torch.randn(3, 3, 1, 1), torch.randn(3, 3, 1, 1)]
    P, Q = (model.logits(view.flatten(1)).softmax(1) for view in views)
    consistency = -sum(math.log(float(p @ q)) for p, q in zip(P, Q, strict=True)) / 3
    balance = 5 * sum(float(q) * math.log(float(q)) for q in P.mean(0))
    terms = model.loss(views, batch).terms
    assert math.isclose(terms["consistency"].item(), consistency, rel_tol=1e-5)
    assert math.isclose(terms["balance"].item(), balance, rel_tol=1e-5)


def test_self_labelling_trains_strong_views_on_confident_weak_ones():
    model = SelfLabelling(torch.nn.Flatten(), torch.nn.Identity(), threshold=0.99)
    weak = torch.tensor([[9.0, 0.0], [9.0, 0.0], [0.0, 9.0], [0.1, 0.0]])
    strong = torch.randn(4, 2, requires_grad=True)
    views = [weak.clone().requires_grad_(True), strong]
    loss = model.loss([view.view(4, 2, 1, 1) for view in views], Batch(np.arange(4), 0)).terms["labels"]
    log_P = strong.detach().log_softmax(1)
    per_cluster = [-(log_P[0, 0] + log_P[1, 0]) / 2, -log_P[2, 1]]  # clusters have equal weight
    assert torch.isclose(loss, sum(per_cluster) / 2)
    loss.backward()
    assert views[0].grad is None or not views[0].grad.any()
    assert not strong.grad[3].any()
