"""SimCLR with total coding rate: align two views of each image and spread all images, the pretraining of NMCE, MLC."""

from __future__ import annotations

from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cgmcr2.objectives import coding_rate

from .method import Batch, Loss, Method, projection_head


class SimclrTcr(Method):
    r"""Similarity of the views with the coding rate in place of negative pairs.

    .. math:: -\frac1v \sum_{j=1}^v R(Z_j; \epsilon)/2 - \lambda\, \overline{\langle z, z' \rangle}

    where ``Z_j`` (n, d) are the unit embeddings of view j, and the similarity is averaged over all images. This is the
    first stage of NMCE, from which MLC also starts.

    Differences from the authors' code: Adam instead of LARS, 256 images per batch instead of 1,024, a projection head
    of width 512 instead of 4096, and 200 epochs instead of 600, all for small machines.

    Parameters
    ----------
    hidden_dim, dim : int
        Width of the projection head, and dimension of the embedding.
    eps : float
        Distortion; eps^2 = 0.2 in the authors' command.
    pull : float
        Weight lambda of the similarity; 30 in the authors' command.

    References
    ----------
    Li, Chen, LeCun and Sommer, Neural Manifold Clustering and Embedding, 2022.
    Ding et al., Unsupervised Manifold Linearizing and Clustering, ICCV 2023.
    """

    defaults: ClassVar = {"optimizer": "adam", "lr": 1e-3, "weight_decay": 1e-5}
    may_be_zero: ClassVar = frozenset({"pull"})

    def __init__(
        self,
        backbone: nn.Module,
        D: int,
        n: int,
        *,
        hidden_dim: int = 512,
        dim: int = 128,
        eps: float = 0.2**0.5,
        pull: float = 30.0,
    ) -> None:
        super().__init__(backbone)
        self.eps, self.pull = eps, pull
        self.head = projection_head(D, hidden_dim, dim, batch_norm=True)

    def loss(self, views: list[Tensor], batch: Batch) -> Loss:
        rows = self.head(self.backbone(torch.cat(views)))
        Z = [batch.gather(F.normalize(part, dim=1)) for part in rows.chunk(len(views))]
        return Loss(tcr_terms(torch.stack(Z), self.eps, self.pull), Z[0])


def tcr_terms(Z: Tensor, eps: float, pull: float) -> dict[str, Tensor]:
    """Rate and alignment of unit embeddings ``Z (2, n, d)`` of two views.

    >>> terms = tcr_terms(torch.eye(2).expand(2, 2, 2), eps=0.5, pull=30)
    >>> round(terms["rate"].item(), 4), terms["alignment"].item()  # log 25 / 2, 30
    (-1.6094, -30.0)
    """
    rate = torch.stack([coding_rate(view, eps) for view in Z]).mean() / 2
    return {"rate": -rate, "alignment": -pull * (Z[0] * Z[1]).sum(1).mean()}
