"""SCAN on images: neighbours of a pretrained network, then self-labelling with strong augmentation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cgmcr2.baselines.deep import n_positives
from cgmcr2.baselines.scan import entropy, scan_loss, self_label_loss
from cgmcr2.graphs.knn import top_similar

from .augment import Augmentation
from .clusterer import HeadMethod
from .features import map_images
from .method import Batch, Loss, random_neighbours
from .staged import StagedClusterer, seeded_linear, stage_seed, strong, weak

if TYPE_CHECKING:
    from cgmcr2.encoders.resnet import ResNet18

    from .images import Images


@dataclass(kw_only=True, eq=False, repr=False)
class ImageSCAN(StagedClusterer):
    """SCAN from pixels; ``cgmcr2.baselines.SCAN`` is the method on fixed features.

    1. Pretraining with MoCo-v2; the nearest neighbours of each image in the features of the images as they are.
    2. Network and cluster head are trained on the consistency of an image with a random neighbour, and on balance.
    3. Self-labelling: the class-balanced cross-entropy of strong views with the labels of confident weak views.

    Differences from the authors' code (github.com/wvangansbeke/Unsupervised-Classification): MoCo-v2 instead of SimCLR,
    as in the paper's table 4; the second stage sees weak views (theirs: strong ones); pseudo-labels come from weak
    views (theirs: from the centres of the images); the strong view is the contrastive augmentation with cutout (theirs:
    four random operations with cutout); cosine annealing instead of a constant learning rate; batches of one size in
    all stages (theirs: 128, and 1,000 for self-labelling); at most a quarter of the mean cluster size as neighbours.

    Parameters
    ----------
    scan_epochs : float
        Epochs of the second stage; ``epochs`` of the settings are those of the third.
    mu : float
        Weight of the entropy.
    n_neighbors : int
        Maximum number of neighbours of an image.
    threshold : float
        Confidence above which a weak view labels a strong one.
    """

    name = "scan-images"
    may_be_zero: ClassVar[frozenset[str]] = frozenset({"mu"})
    fractions: ClassVar[frozenset[str]] = frozenset({"threshold"})
    reference = "Van Gansbeke, Vandenhende, Georgoulis, Proesmans and Van Gool, ECCV 2020"
    defaults: ClassVar[dict[str, Any]] = {
        "optimizer": "adam",
        "lr": 1e-4,
        "weight_decay": 1e-4,
        "epochs": 200.0,
        "batch_size": 128,
    }

    scan_epochs: float = 50.0
    mu: float = 5.0
    n_neighbors: int = 20
    threshold: float = 0.99

    def _fit(self, images: Images, settings: dict[str, Any], seed: int) -> None:
        labelling = self._stage_settings(settings, self.defaults)
        consistency = self._stage_settings({**settings, "epochs": self.scan_epochs}, self.defaults)
        backbone = self._pretrained(images, settings, seed)
        head = seeded_linear(backbone, consistency.size, self.n_clusters, stage_seed(seed, 1))
        U = F.normalize(map_images(backbone, images, labelling), dim=1)
        nearest = top_similar(U, n_positives(len(U), self.n_clusters, self.n_neighbors))[1]
        first = NeighbourConsistency(backbone, head, nearest, self.mu)
        self._train(first, consistency, images, stage_seed(seed, 2), "Consistency")
        last = SelfLabelling(backbone, head, self.threshold)
        self._train(last, labelling, images, stage_seed(seed, 3), "Self-labelling")

    def _untrained(self, backbone: ResNet18) -> SelfLabelling:
        return SelfLabelling(backbone, nn.Linear(backbone.dim, self.n_clusters), self.threshold)


class NeighbourConsistency(HeadMethod):
    """SCAN's second stage, given the ``nearest`` neighbours (n, m) of each image."""

    def __init__(self, backbone: nn.Module, head: nn.Module, nearest: Tensor, mu: float) -> None:
        super().__init__(backbone, head)
        self.nearest, self.mu = nearest, mu

    def augmentations(self, augmentation: Augmentation) -> tuple[Augmentation, ...]:
        return (weak(augmentation),)

    def companions(self, batch: Batch) -> list[npt.NDArray[np.int64]]:
        """One random neighbour of each image."""
        return [random_neighbours(self.nearest, batch)]

    def loss(self, views: list[Tensor], batch: Batch) -> Loss:
        logits = self.logits(self.backbone(torch.cat(views)))
        anchors, neighbours = (batch.gather(rows) for rows in logits.chunk(2))
        P, Q = anchors.softmax(1), neighbours.softmax(1)
        return Loss({"consistency": scan_loss(P, Q, 0.0), "balance": -self.mu * entropy(P)}, anchors)


class SelfLabelling(HeadMethod):
    """SCAN's third stage."""

    def __init__(self, backbone: nn.Module, head: nn.Module, threshold: float) -> None:
        super().__init__(backbone, head)
        self.threshold = threshold

    def augmentations(self, augmentation: Augmentation) -> tuple[Augmentation, ...]:
        return weak(augmentation), strong(augmentation)

    def loss(self, views: list[Tensor], batch: Batch) -> Loss:
        logits = self.logits(self.backbone(torch.cat(views)))
        anchors, strong_logits = (batch.gather(rows) for rows in logits.chunk(2))
        terms = {"labels": self_label_loss(strong_logits, anchors.detach().softmax(1), self.threshold)}
        return Loss(terms, anchors)
