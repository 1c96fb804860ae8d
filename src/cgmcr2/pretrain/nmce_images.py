"""NMCE on images: rate reduction of averaged views, after pretraining with the total coding rate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cgmcr2._random import mix, seeded
from cgmcr2.baselines.nmce import EmbeddingAndLogits, nmce_loss
from cgmcr2.model import gumbel_softmax

from .loop import feature_dim
from .method import Batch, Loss
from .staged import FixableMethod, StagedClusterer, stage_seed

if TYPE_CHECKING:
    from cgmcr2.encoders.resnet import ResNet18

    from .images import Images


@dataclass(kw_only=True, eq=False, repr=False)
class ImageNMCE(StagedClusterer):
    """NMCE from pixels; ``cgmcr2.baselines.NMCE`` is the method on fixed features.

    1. Pretraining: similarity of two views and total coding rate (``simclr-tcr``).
    2. Feature and cluster head are trained by ``nmce_loss`` of two views with the backbone fixed.
    3. All layers are trained by the same loss.

    Differences from the authors' code: Adam with cosine annealing instead of LARS and SGD; the features are scaled to
    unit length; the trunk and the feature head of the second stage are new (theirs: those of the first stage, of which
    the trunk is fixed); the similarity of the views is used in the first stage only.

    Parameters
    ----------
    head_epochs : float
        Epochs of the second stage; ``epochs`` of the settings are those of the third.
    hidden_dim, embedding_dim : int
        Width of the trunk (the authors' 4096) and of Z.
    eps, temperature : float
        Distortion, and temperature of the Gumbel-softmax.
    """

    name = "nmce-images"
    reference = "Li, Chen, LeCun and Sommer, Neural Manifold Clustering and Embedding, 2022"
    pretraining: ClassVar[str] = "simclr-tcr"
    defaults: ClassVar[dict[str, Any]] = {
        "optimizer": "adam",
        "lr": 1e-4,
        "weight_decay": 1e-4,
        "epochs": 100.0,
        "batch_size": 512,
    }

    head_epochs: float = 100.0
    hidden_dim: int = 1024
    embedding_dim: int = 128
    eps: float = 0.2**0.5
    temperature: float = 1.0

    def _fit(self, images: Images, settings: dict[str, Any], seed: int) -> None:
        last = self._stage_settings(settings, self.defaults)
        first = self._stage_settings({**settings, "epochs": self.head_epochs}, {**self.defaults, "lr": 1e-3})
        backbone = self._pretrained(images, settings, seed)
        with seeded(stage_seed(seed, 1)):
            heads = self._heads(feature_dim(backbone, first.size))
        for fixed, stage, description in ((True, first, "Heads"), (False, last, "All layers")):
            model = RateReduction(backbone, heads, self.eps, self.temperature, fixed=fixed)
            self._train(model, stage, images, stage_seed(seed, 3 - fixed), description)

    def _untrained(self, backbone: ResNet18) -> RateReduction:
        return RateReduction(backbone, self._heads(backbone.dim), self.eps, self.temperature, fixed=False)

    def _heads(self, D: int) -> EmbeddingAndLogits:
        return EmbeddingAndLogits(D, self.n_clusters, self.hidden_dim, self.embedding_dim)


class RateReduction(FixableMethod):
    """NMCE's second (backbone ``fixed``) and third stage."""

    def __init__(
        self, backbone: nn.Module, heads: EmbeddingAndLogits, eps: float, temperature: float, *, fixed: bool
    ) -> None:
        super().__init__(backbone, fixed=fixed)
        self.heads, self.eps, self.temperature = heads, eps, temperature

    def logits(self, features: Tensor) -> Tensor:
        logits: Tensor = self.heads(F.normalize(features, dim=1))[1]
        return logits

    def loss(self, views: list[Tensor], batch: Batch) -> Loss:
        features = F.normalize(self.backbone(torch.cat(views)), dim=1)
        Z_rows, logits = self.heads(features)
        Z = torch.stack([batch.gather(rows) for rows in Z_rows.chunk(len(views))])  # (v, n, d)
        stacked = torch.stack([batch.gather(rows) for rows in logits.chunk(len(views))])  # (v, n, k)
        generator = torch.Generator(Z.device).manual_seed(mix(batch.seed, batch.step))
        Pi = gumbel_softmax(stacked, self.temperature, generator=generator)
        return Loss({"rate": nmce_loss(Z, Pi, self.eps)}, Z[0])
