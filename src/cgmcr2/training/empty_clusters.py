"""Fill clusters that no row is assigned to."""

from __future__ import annotations

import torch

from cgmcr2.consensus.partitions import Int64
from cgmcr2.features.sources import FeatureSource, read_rows, row_blocks
from cgmcr2.model import Network

PASSES = 5  # a cluster that is filled may take all rows of another


@torch.no_grad()
def fill_empty_clusters(network: Network, head: int, source: FeatureSource, partition: Int64) -> None:
    """Raise the bias of each empty cluster until it gets half of the rows that ``partition (n,)`` gives it.

    With hundreds of clusters of few rows, training may move all rows of a cluster to its neighbours.

    Args:
        network: trained network with cluster heads, changed in place.
        head: the cluster head in use.
        source: training rows (n, D), or (n, p) if the network has a projection, which is not repeated.
        partition: the consensus partition that guided the training.
    """
    bias = network.cluster_out.bias[head, 0]  # (k,)
    targets = torch.from_numpy(partition).to(bias.device)
    forward = network if network.linear_path is None else network.from_projected
    for _ in range(PASSES):
        sizes, gaps = torch.zeros_like(bias), torch.empty(len(partition), device=bias.device)
        for rows in row_blocks(len(partition)):
            logits = forward(torch.from_numpy(read_rows(source, rows)).to(bias.device))[1][head]  # (b, k)
            best = logits.max(1)
            sizes += torch.bincount(best.indices, minlength=len(bias))
            gaps[rows] = best.values - logits.gather(1, targets[rows, None])[:, 0]
        empty = (sizes == 0) & (torch.bincount(targets, minlength=len(bias)) > 0)
        if not empty.any():
            return
        for cluster in empty.nonzero()[:, 0].tolist():
            gap = gaps[targets == cluster].median()
            bias[cluster] += gap + 1e-5 * (1 + gap)  # above the largest logit, also after rounding
