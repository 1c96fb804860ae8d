"""Guide the cluster heads towards the consensus partition."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from cgmcr2.consensus.partitions import Int64
from cgmcr2.objectives._checks import full_precision

FINAL_SHARE = 0.3  # of the weight, kept in fine-tuning: without it, hundreds of 1,000 clusters become empty


class ConsensusGuide:
    """Cross-entropy between the cluster heads and a partition, with a weight that decays over the warm-up.

    Args:
        partition: (n,) clusters of the training rows.
        weight: initial weight, which falls linearly to ``FINAL_SHARE`` of it.
        warmup_steps: number of steps of the warm-up.
        device: device of the logits.
    """

    def __init__(self, partition: Int64, weight: float, warmup_steps: int, device: torch.device) -> None:
        self.partition = torch.from_numpy(partition).to(device)
        self.weight, self.warmup_steps = weight, warmup_steps

    def __call__(self, logits: Tensor, rows: Int64, step: int) -> Tensor:
        """The weighted cross-entropy of ``logits (h, b, k)`` for the batch ``rows (b,)``."""
        targets = self.partition[torch.from_numpy(rows).to(self.partition.device)]  # (b,)
        loss = F.cross_entropy(full_precision(logits)[0].flatten(0, 1), targets.repeat(len(logits)))
        return self.weight * max(FINAL_SHARE, 1 - step / max(self.warmup_steps, 1)) * loss
