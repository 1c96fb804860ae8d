import numpy as np
import torch

from cgmcr2.baselines.nmce import EmbeddingAndLogits
from cgmcr2.pretrain.method import Batch
from cgmcr2.pretrain.nmce_images import RateReduction


def log_det(M):
    return torch.linalg.eigvalsh(M).log().sum()


def views(n=12):
    torch.manual_seed(0)
    return [torch.randn(n, 3, 2, 2), torch.randn(n, 3, 2, 2)]


def backbone():
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(12, 5), torch.nn.BatchNorm1d(5))


def test_nmce_is_the_rate_reduction_of_averaged_views():
    """At a temperature near 0, memberships are one-hot, and the loss is a sum over clusters."""
    model = RateReduction(backbone(), EmbeddingAndLogits(5, 2, 8, 3), eps=0.5, temperature=1e-6, fixed=True).train()
    with torch.no_grad():
        model.heads.cluster.weight *= 1e6  # makes the noise negligible
        loss = model.loss(views(), Batch(np.arange(12), 0))
        features = torch.nn.functional.normalize(model.backbone(torch.cat(views())), dim=1)
        Z, logits = model.heads(features)
    mean = torch.nn.functional.normalize(Z.view(2, 12, 3).mean(0), dim=1)
    Pi = torch.nn.functional.one_hot(logits.argmax(1), 2).view(2, 12, 2).float().mean(0)
    d, n, eps2 = 3, 12, 0.25
    rate = log_det(torch.eye(d) + d / (n * eps2) * mean.T @ mean)
    for p in Pi.T:
        if p.sum() > 0:
            rate -= p.sum() / n * log_det(torch.eye(d) + d / (p.sum() * eps2) * mean.T @ (p[:, None] * mean))
    assert torch.isclose(loss.terms["rate"], -rate / 2, atol=1e-3)


def test_fixed_backbone_keeps_weights_and_statistics():
    model = RateReduction(backbone(), EmbeddingAndLogits(5, 2, 8, 3), eps=0.5, temperature=1.0, fixed=True).train()
    before = {name: tensor.clone() for name, tensor in model.backbone.state_dict().items()}
    sum(model.loss(views(), Batch(np.arange(12), 0)).terms.values()).backward()
    assert all(torch.equal(before[name], tensor) for name, tensor in model.backbone.state_dict().items())
    assert all(parameter.grad is None for parameter in model.backbone.parameters())
    free = RateReduction(model.backbone, model.heads, eps=0.5, temperature=1.0, fixed=False).train()
    sum(free.loss(views(), Batch(np.arange(12), 0)).terms.values()).backward()
    assert all(parameter.grad is not None for parameter in free.backbone.parameters())
