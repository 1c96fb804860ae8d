"""Losses are computed in float32 under mixed precision."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from cgmcr2.baselines.mlc import mlc_loss
from cgmcr2.baselines.nmce import nmce_loss
from cgmcr2.baselines.scan import scan_loss, self_label_loss
from cgmcr2.pretrain.cc import nt_xent
from cgmcr2.pretrain.gcc import cluster_contrast, graph_contrast
from cgmcr2.pretrain.imc_swav import information_loss, similarities, swapped_prediction
from cgmcr2.pretrain.moco_v2 import info_nce
from cgmcr2.pretrain.simclr_tcr import tcr_terms
from cgmcr2.pretrain.spice import fixmatch_terms

A, B = F.normalize(torch.randn(2, 20, 7, generator=torch.Generator().manual_seed(0)), dim=2)  # unit rows
P, Q = A.softmax(1), B.softmax(1)
LOSSES: dict[str, Callable[[], Tensor]] = {
    "nt_xent": lambda: nt_xent(A, B, 0.5),
    "graph_contrast": lambda: graph_contrast(A, [B, B.flip(0)], torch.ones(20), 0.1),
    "cluster_contrast": lambda: cluster_contrast(P, Q),
    "info_nce": lambda: info_nce(A, B, B.flip(0), 0.1),
    "similarities": lambda: similarities(A, B),
    "similarities of bfloat16": lambda: similarities(A.bfloat16(), B),
    "swapped_prediction": lambda: swapped_prediction([A, B], 0.1, 0.05, 3),
    "information_loss": lambda: information_loss(A, B, 4.0),
    "mlc_loss": lambda: mlc_loss(A, B, 0.5, 0.2, 5, 0.05),
    "nmce_loss": lambda: nmce_loss(torch.stack([A, B]), torch.stack([P, Q]), 0.5),
    "tcr_terms": lambda: torch.stack(list(tcr_terms(torch.stack([A, B]), 0.5, 30.0).values())),
    "scan_loss": lambda: scan_loss(P, Q, 5.0),
    "self_label_loss": lambda: self_label_loss(A, P, 0.1),
    "fixmatch_terms": lambda: torch.stack(list(fixmatch_terms(A, B, torch.arange(20) % 7, 0.1).values())),
}


@pytest.mark.parametrize("name", LOSSES)
def test_losses_are_the_same_under_autocast(name: str) -> None:
    expected = LOSSES[name]()
    with torch.autocast("cpu", torch.bfloat16):
        value = LOSSES[name]()
    assert value.dtype == torch.float32
    torch.testing.assert_close(value, expected, rtol=0, atol=0)
