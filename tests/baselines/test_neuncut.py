"""NeuNcut: standardisation of the input, and the authors' settings."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F

from cgmcr2.baselines.neuncut import Centred, NeuNcut
from cgmcr2.evaluation.metrics import clustering_accuracy


def test_input_is_centred_and_has_mean_square_one() -> None:
    X = 5 + torch.randn(30, 6, generator=torch.Generator().manual_seed(0))
    centred = Centred(6)
    centred.mean.copy_(F.normalize(X, dim=1).mean(0))
    rows = centred(X)
    torch.testing.assert_close(rows.square().mean(1), torch.ones(30))
    torch.testing.assert_close(centred(3 * X), rows)
    assert rows.mean(0).abs().max() < 0.5


def test_authors_affinity_and_penalty_separate_clear_clusters() -> None:
    random = np.random.default_rng(0)
    y = np.arange(120) % 3
    X = np.eye(8)[y] + 0.1 * random.standard_normal((120, 8))
    parameters = {"hidden_dim": 32, "max_steps": 200, "batch_size": 64, "lr": 5e-3}
    model = NeuNcut(3, affinity="gaussian", s=None, penalty="norm", gamma=40, **parameters).fit(X)
    assert clustering_accuracy(y, model.labels_) > 0.95
    assert model.history_[-1] < model.history_[0]
