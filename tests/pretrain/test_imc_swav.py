import math

import torch

from cgmcr2.pretrain.augment import Augmentation
from cgmcr2.pretrain.imc_swav import InformationSwav, information_loss, sinkhorn_assignment, swapped_prediction
from cgmcr2.pretrain.method import Batch


def test_sinkhorn_equals_plain_iteration_and_balances():
    U = torch.rand(6, 3)
    Q = (U / 0.3).exp()
    for _ in range(3):
        Q = Q / Q.sum(0)
        Q = Q / Q.sum(1, keepdim=True)
    assert torch.allclose(sinkhorn_assignment(U, 0.3, 3), Q, atol=1e-6)
    balanced = sinkhorn_assignment(U, 0.3, 100)
    assert torch.allclose(balanced.sum(0), torch.full((3,), 2.0), atol=1e-4)
    assert torch.allclose(balanced.sum(1), torch.ones(6))


def test_sinkhorn_is_finite_at_the_default_temperature():
    assert torch.isfinite(sinkhorn_assignment(torch.tensor([[1.0, -1.0], [1.0, -1.0]]), 0.005, 3)).all()


def test_swapped_prediction_equals_brute_force_over_pairs():
    U = [torch.rand(4, 3) for _ in range(3)]
    losses = []
    for i in (0, 1):
        Q = sinkhorn_assignment(U[i], 0.05, 3)
        for j in range(3):
            if j != i:
                P = (U[j] / 0.1).softmax(1)
                losses.append(-sum(float(Q[a, b]) * math.log(float(P[a, b])) for a in range(4) for b in range(3)) / 4)
    assert math.isclose(swapped_prediction(U, 0.1, 0.05, 3).item(), sum(losses) / 4, rel_tol=1e-4)


def test_information_equals_brute_force():
    Y, U = torch.randn(5, 3), torch.randn(5, 4)
    y, u = Y.softmax(1), U.softmax(1)
    joint = [[sum(float(y[i, a] * u[i, b]) for i in range(5)) / 5 for b in range(4)] for a in range(3)]
    classes = [sum(row) for row in joint]
    prototypes = [sum(row[b] for row in joint) for b in range(4)]
    conditional = -sum(joint[a][b] * math.log(joint[a][b] / prototypes[b]) for a in range(3) for b in range(4))
    entropy = -sum(p * math.log(p) for p in classes)
    assert math.isclose(information_loss(Y, U, 4.0).item(), conditional - 4 * entropy, rel_tol=1e-4)


class Pool(torch.nn.Module):
    def forward(self, x):
        return x.mean((2, 3))


def test_classifier_does_not_train_the_network_and_prototypes_are_frozen_at_first():
    model = InformationSwav(
        Pool(), 3, 8, n_clusters=2, prototypes=5, dim=4, hidden_dim=6, local_views=1, frozen_steps=1
    )
    assert [view.size for view in model.augmentations(Augmentation(size=32))] == [28, 28, 18]
    views = [torch.randn(8, 3, 4, 4, requires_grad=True), torch.randn(8, 3, 4, 4), torch.randn(8, 3, 2, 2)]
    loss = model.loss(views, Batch(torch.arange(8).numpy(), 0))
    (loss.terms["information"] + loss.terms["bound"]).backward(retain_graph=True)
    assert views[0].grad is None
    assert model.classifier[0].weight.grad is not None
    loss.terms["swap"].backward()
    assert views[0].grad is not None
    assert model.prototypes.grad is None
    model.loss(views, Batch(torch.arange(8).numpy(), 1)).terms["swap"].backward()
    assert model.prototypes.grad is not None
