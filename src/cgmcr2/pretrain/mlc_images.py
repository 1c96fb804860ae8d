"""MLC on images: rate reduction with doubly stochastic memberships, after pretraining with the total coding rate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cgmcr2._random import seeded
from cgmcr2.baselines.mlc import TwoHeads, mlc_loss
from cgmcr2.baselines.spectral import NystromMap, fit_graph, neighbours
from cgmcr2.objectives import coding_rate

from .features import map_images
from .loop import feature_dim
from .method import Batch, Loss
from .staged import FixableMethod, StagedClusterer, stage_seed

if TYPE_CHECKING:
    from cgmcr2.encoders.resnet import ResNet18

    from .images import Images


@dataclass(kw_only=True, eq=False, repr=False)
class ImageMLC(StagedClusterer):
    """MLC from pixels; ``cgmcr2.baselines.MLC`` is the method on fixed features.

    1. Pretraining: similarity of two views and total coding rate (``simclr-tcr``), as NMCE.
    2. The heads are trained by ``-R`` alone with the backbone fixed; then the cluster head becomes a copy of the
       feature head.
    3. All layers are trained by ``mlc_loss`` of the mean embeddings of two views. The clusters are a normalized cut of
       the neighbour graph of the cluster head's output; new images are labelled by the Nyström extension.

    The authors' code for images was not available; views are averaged as in NMCE. Otherwise the differences are those
    of ``cgmcr2.baselines.MLC``.

    Parameters
    ----------
    head_epochs : float
        Epochs of the second stage; ``epochs`` of the settings are those of the third.
    hidden_dim, embedding_dim, eps, eta, sinkhorn_steps, mu, s
        As for ``cgmcr2.baselines.MLC``.
    """

    name = "mlc-images"
    may_be_zero: ClassVar[frozenset[str]] = frozenset({"mu"})
    reference = "Ding, Tong, Chan, Dai, Ma and Haeffele, Unsupervised Manifold Linearizing and Clustering, ICCV 2023"
    pretraining: ClassVar[str] = "simclr-tcr"
    defaults: ClassVar[dict[str, Any]] = {
        "optimizer": "adam",
        "lr": 1e-4,
        "weight_decay": 1e-4,
        "epochs": 10.0,
        "batch_size": 512,
    }

    head_epochs: float = 1.0
    hidden_dim: int = 1024
    embedding_dim: int = 128
    eps: float = 0.1**0.5
    eta: float = 0.175
    sinkhorn_steps: int = 5
    mu: float = 0.05
    s: int = 10

    def _fit(self, images: Images, settings: dict[str, Any], seed: int) -> None:
        last = self._stage_settings(settings, self.defaults)
        first = self._stage_settings({**settings, "epochs": self.head_epochs}, self.defaults)
        backbone = self._pretrained(images, settings, seed)
        with seeded(stage_seed(seed, 1)):
            heads = TwoHeads(feature_dim(backbone, first.size), self.hidden_dim, self.embedding_dim)
        self.map_: NystromMap | None = None
        self._train(self._network(backbone, heads, warmup=True), first, images, stage_seed(seed, 2), "Heads")
        heads.cluster.load_state_dict(heads.feature.state_dict())
        self._train(self._network(backbone, heads, warmup=False), last, images, stage_seed(seed, 3), "All layers")

    def _fitted_labels(self, images: Images) -> npt.NDArray[np.int64]:
        C = self._embedding(images)
        labels, self.map_, _ = fit_graph(C, neighbours(C, self.s), self.n_clusters, None, self.seed_)
        return labels

    def _network(self, backbone: nn.Module, heads: TwoHeads, *, warmup: bool) -> ManifoldLinearizing:
        return ManifoldLinearizing(backbone, heads, self.eps, self.eta, self.sinkhorn_steps, self.mu, warmup=warmup)

    def _untrained(self, backbone: ResNet18) -> ManifoldLinearizing:
        heads = TwoHeads(backbone.dim, self.hidden_dim, self.embedding_dim)
        return self._network(backbone, heads, warmup=False)

    def _state(self) -> dict[str, npt.NDArray[Any]]:
        assert self.map_ is not None
        return self.map_.arrays()

    def _restore(self, arrays: dict[str, npt.NDArray[Any]]) -> None:
        self.map_ = NystromMap.from_arrays(arrays)

    def _embedding(self, images: Images) -> npt.NDArray[np.float32]:
        return np.asarray(map_images(self.model_, images, self._settings).numpy())

    def _labels(self, images: Images) -> npt.NDArray[np.int64]:
        if self.map_ is None:  # during the training
            C = self._embedding(images)
            return fit_graph(C, neighbours(C, self.s), self.n_clusters, None, 0)[0]
        return self.map_.predict(self._embedding(images))


class ManifoldLinearizing(FixableMethod):
    """MLC's ``warmup`` on -R with the backbone fixed, and its full objective."""

    def __init__(
        self,
        backbone: nn.Module,
        heads: TwoHeads,
        eps: float,
        eta: float,
        sinkhorn_steps: int,
        mu: float,
        *,
        warmup: bool,
    ) -> None:
        super().__init__(backbone, fixed=warmup)
        self.heads = heads
        self.heads.cluster.requires_grad_(not warmup)
        self.eps, self.eta, self.sinkhorn_steps, self.mu = eps, eta, sinkhorn_steps, mu

    def logits(self, features: Tensor) -> Tensor:
        """The unit rows (n, d) of the cluster head."""
        C: Tensor = self.heads(F.normalize(features, dim=1))[1]
        return C

    def loss(self, views: list[Tensor], batch: Batch) -> Loss:
        features = F.normalize(self.backbone(torch.cat(views)), dim=1)
        Z, C = (
            F.normalize(torch.stack([batch.gather(part) for part in rows.chunk(len(views))]).mean(0), dim=1)
            for rows in self.heads(features)
        )
        if self.fixed:  # warm-up
            return Loss({"rate": -coding_rate(Z, self.eps) / 2}, Z)
        return Loss({"mlc": mlc_loss(Z, C, self.eps, self.eta, self.sinkhorn_steps, self.mu)}, Z)
