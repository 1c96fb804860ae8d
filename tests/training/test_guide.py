from __future__ import annotations

import numpy as np
import pytest
import torch

from cgmcr2.training.guide import FINAL_SHARE, ConsensusGuide


def test_cross_entropy_of_the_rows_of_the_batch_with_decaying_weight() -> None:
    partition, rows = np.array([0, 1, 2, 1]), np.array([3, 0])
    guide = ConsensusGuide(partition, weight=2.0, warmup_steps=10, device=torch.device("cpu"))
    logits = torch.randn(2, 2, 3, generator=torch.Generator().manual_seed(0))
    log_p = logits.log_softmax(-1)
    expected = -(log_p[:, 0, 1] + log_p[:, 1, 0]).mean() / 2
    for step, share in ((0, 1.0), (5, 0.5), (9, FINAL_SHARE), (100, FINAL_SHARE)):
        assert guide(logits, rows, step).item() == pytest.approx(2.0 * share * expected.item(), rel=1e-5)
