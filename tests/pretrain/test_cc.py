import math

import torch

from cgmcr2.pretrain.cc import ContrastiveClustering, nt_xent
from cgmcr2.pretrain.method import Batch


def unit_rows(*shape, seed=0):
    return torch.nn.functional.normalize(torch.randn(*shape, generator=torch.Generator().manual_seed(seed)), dim=1)


def brute_force_contrast(A, B, temperature):
    """Loop over all rows and candidates."""
    rows, m, total = [*A, *B], len(A), 0.0
    for i, row in enumerate(rows):
        counterpart = (i + m) % (2 * m)
        scores = [math.exp(float(row @ other) / temperature) for j, other in enumerate(rows) if j != i]
        total += math.log(sum(scores)) - float(row @ rows[counterpart]) / temperature
    return total / (2 * m)


def test_contrast_equals_brute_force():
    A, B = unit_rows(5, 3), unit_rows(5, 3, seed=1)
    assert math.isclose(nt_xent(A, B, 0.5).item(), brute_force_contrast(A, B, 0.5), rel_tol=1e-5)


def test_loss_has_instance_contrast_cluster_contrast_and_balance():
    torch.manual_seed(0)
    model = ContrastiveClustering(torch.nn.Flatten(), 12, 6, n_clusters=3, dim=4)
    views = [torch.randn(6, 3, 2, 2), torch.randn(6, 3, 2, 2)]
    loss = model.loss(views, Batch(torch.arange(6).numpy(), 0))
    model.requires_grad_(False)
    P = [model.logits(view.flatten(1)).softmax(1) for view in views]
    Z = [torch.nn.functional.normalize(model.instance_head(view.flatten(1)), dim=1) for view in views]
    columns = [p.T / p.T.norm(dim=1, keepdim=True) for p in P]
    balance = sum(math.log(3) + sum(float(q) * math.log(float(q)) for q in p.mean(0)) for p in P)
    expected = [brute_force_contrast(*Z, 0.5), brute_force_contrast(*columns, 1.0), balance]
    assert torch.allclose(torch.stack(list(loss.terms.values())), torch.tensor(expected), atol=1e-5)
