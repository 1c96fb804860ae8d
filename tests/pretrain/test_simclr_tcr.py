from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from cgmcr2.pretrain.method import Batch
from cgmcr2.pretrain.simclr_tcr import SimclrTcr, tcr_terms

from .conftest import Small


def test_terms_by_brute_force() -> None:
    generator = torch.Generator().manual_seed(0)
    Z = F.normalize(torch.randn(2, 5, 3, generator=generator, dtype=torch.float64), dim=2)
    terms = tcr_terms(Z, eps=0.4, pull=7.0)
    rates = [np.log(np.linalg.det(np.eye(3) + 3 / (5 * 0.4**2) * (z.T @ z))) / 2 for z in Z.numpy()]
    similarity = np.mean([float(Z[0, i] @ Z[1, i]) for i in range(5)])
    assert float(terms["rate"]) == pytest.approx(-np.mean(rates), rel=1e-9)
    assert float(terms["alignment"]) == pytest.approx(-7 * similarity, rel=1e-9)


def test_loss_is_that_of_the_embeddings() -> None:
    torch.manual_seed(0)
    method = SimclrTcr(Small(), 8, 100, hidden_dim=8, dim=4).eval()
    views = [torch.randn(6, 3, 16, 16) for _ in range(2)]
    loss = method.loss(views, Batch(np.arange(6), step=0))
    Z = torch.stack([F.normalize(method.head(method.backbone(view)), dim=1) for view in views])
    expected = tcr_terms(Z, 0.2**0.5, 30.0)
    for name, value in expected.items():
        torch.testing.assert_close(loss.terms[name], value, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(loss.Z, Z[0])
