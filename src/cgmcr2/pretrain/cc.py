"""CC, Contrastive Clustering: contrast of images by the rows and of clusters by the columns of one matrix."""

from __future__ import annotations

import math
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cgmcr2.baselines.scan import entropy
from cgmcr2.objectives._checks import without_autocast

from .clusterer import ClusteringMethod, ImageClusterer
from .method import Batch, Loss, projection_head


class ContrastiveClustering(ClusteringMethod):
    r"""Contrastive clustering.

    .. math:: \ell_\tau(Z, Z') + \ell_{\tau'}(P^\top, P'^\top) + 2 \log k - H(\bar p) - H(\bar p')

    where ``Z`` and ``Z'`` (n, d) are the unit embeddings of two views of the images, ``P`` and ``P'`` (n, k) their
    memberships, whose columns are scaled to unit length, ``p`` with a bar the mean membership, H the entropy, and the
    contrast is that of ``nt_xent``.

    Differences from the authors' code (github.com/Yunfan-Li/Contrastive-Clustering): ResNet-18 on images of their own
    size (theirs: ResNet-34, all images resized to 224 pixels); cosine annealing instead of a constant learning rate;
    200 epochs instead of 1,000; images are normalised. The loss equals theirs.

    Parameters
    ----------
    n_clusters : int
        Number of clusters k.
    dim : int
        Dimension of the embedding.
    instance_temperature, cluster_temperature : float
        Temperatures of the two contrasts.

    References
    ----------
    Li, Hu, Liu, Peng, Zhou and Peng, Contrastive Clustering, AAAI 2021.
    """

    defaults: ClassVar = {"optimizer": "adam", "lr": 3e-4, "weight_decay": 0.0}

    def __init__(
        self,
        backbone: nn.Module,
        D: int,
        n: int,
        *,
        n_clusters: int = 10,
        dim: int = 128,
        instance_temperature: float = 0.5,
        cluster_temperature: float = 1.0,
    ) -> None:
        super().__init__(backbone)
        self.temperatures = instance_temperature, cluster_temperature
        self.instance_head = projection_head(D, D, dim)
        self.cluster_head = projection_head(D, D, n_clusters)

    def loss(self, views: list[Tensor], batch: Batch) -> Loss:
        features = self.backbone(torch.cat(views))
        Z = [batch.gather(rows) for rows in F.normalize(self.instance_head(features), dim=1).chunk(2)]
        P = [batch.gather(rows.float().softmax(1)) for rows in self.logits(features).chunk(2)]
        terms = {
            "instance": nt_xent(Z[0], Z[1], self.temperatures[0]),
            "cluster": nt_xent(F.normalize(P[0].T, dim=1), F.normalize(P[1].T, dim=1), self.temperatures[1]),
            "balance": 2 * math.log(P[0].shape[1]) - entropy(P[0]) - entropy(P[1]),
        }
        return Loss(terms, Z[0])


class CC(ImageClusterer):
    """Contrastive clustering of images; the settings are those of ``ContrastiveClustering`` and of the loop."""

    name = "cc"
    reference = "Li, Hu, Liu, Peng, Zhou and Peng, Contrastive Clustering, AAAI 2021"


def nt_xent(A: Tensor, B: Tensor, temperature: float) -> Tensor:
    """Cross-entropy of finding the counterpart of each row of ``A (m, d)`` and ``B (m, d)`` among all other rows.

    >>> round(nt_xent(torch.eye(2), torch.eye(2), 1.0).item(), 3)  # log(e + 2) - 1
    0.551
    """
    m, rows = len(A), torch.cat([A, B])
    with without_autocast(A):
        logits = (rows @ rows.T / temperature).fill_diagonal_(-torch.inf)  # (2m, 2m)
    counterpart = torch.arange(2 * m, device=A.device).roll(m)
    return F.cross_entropy(logits, counterpart)
