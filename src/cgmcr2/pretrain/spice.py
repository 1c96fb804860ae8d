"""SPICE: heads trained on prototype pseudo-labels, then semi-supervised training from the reliable ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cgmcr2._optim import Adam
from cgmcr2._progress import progress_bar
from cgmcr2._random import seeded
from cgmcr2.baselines.deep import n_positives
from cgmcr2.graphs.knn import top_similar

from .augment import Augmentation, default_augmentation, draw
from .clusterer import HeadMethod
from .features import map_images, view_features
from .loop import feature_dim
from .method import Batch, Loss, projection_head
from .staged import StagedClusterer, stage_seed, strong, weak

if TYPE_CHECKING:
    from cgmcr2.encoders.resnet import ResNet18

    from .images import Images
    from .settings import Settings


@dataclass(kw_only=True, eq=False, repr=False)
class SPICE(StagedClusterer):
    r"""Semantic pseudo-labelling for image clustering.

    1. Pretraining with MoCo-v2.
    2. Several heads on the fixed features: per batch, the prototype of a cluster is the mean feature of its most
       confident images, the images nearest to it are pseudo-labelled, and the head is trained on strong views of them
       with cross-entropy of the softmax of the memberships. The head of lowest loss is kept.
    3. An image is reliable if its confidence is above 0.99 and the fraction ``agreement`` of its neighbours has its
       label. The network is trained on these labels and, for all images, on the consistency of a strong with a
       confident weak view (FixMatch).

    Differences from the authors' code (github.com/niuchuangnn/SPICE): the strong view is the contrastive augmentation
    with cutout (theirs: four random operations with cutout); every cluster keeps as many reliable images as the
    smallest has, at least a tenth of the mean cluster size, reliable ones first and those of highest agreement first
    among them (theirs: at random, and none if one cluster has none); prototypes are means of weak views (theirs: of the
    images as they are); the number of neighbours is capped at a quarter of the mean cluster size; the head is chosen
    after the last epoch; the third stage starts from the pretrained network and the kept head, in batches that are not
    stratified by label, for 100 epochs, and without a moving average of the weights (theirs: a new network, 2^20 steps
    of 64 labelled and 448 unlabelled images).

    Parameters
    ----------
    n_heads, head_epochs, repeats : int
        Number of heads, epochs of the second stage, and passes over the pseudo-labels of a batch.
    head_batch : int
        Images of which prototypes are taken.
    center_ratio : float
        Fraction of the mean cluster size whose mean is a prototype.
    threshold : float
        Confidence above which a weak view labels a strong one.
    agreement : float
        Fraction of the neighbours of a reliable image that have its label: 0.9 in the authors' configurations for
        STL-10 and ImageNet; theirs for CIFAR have 0.99, as table 4.

    References
    ----------
    Niu, Shan and Wang, SPICE: Semantic Pseudo-Labeling for Image Clustering, IEEE TIP 2022.
    """

    name = "spice"
    reference = "Niu, Shan and Wang, SPICE: Semantic Pseudo-Labeling for Image Clustering, IEEE TIP 2022"
    fractions: ClassVar[frozenset[str]] = frozenset({"center_ratio", "threshold", "agreement"})
    defaults: ClassVar[dict[str, Any]] = {"optimizer": "sgd", "lr": 0.03, "weight_decay": 5e-4, "epochs": 100.0}

    n_heads: int = 10
    head_epochs: int = 30
    repeats: int = 8
    head_batch: int = 5000
    center_ratio: float = 0.5
    threshold: float = 0.95
    agreement: float = 0.9

    def _fit(self, images: Images, settings: dict[str, Any], seed: int) -> None:
        stage = self._stage_settings(settings, self.defaults)
        backbone = self._pretrained(images, settings, seed)
        heads = self._train_heads(backbone.eval(), images, stage, stage_seed(seed, 1))
        semi = SemiSupervised(backbone, heads[0], torch.full((len(images),), -1), self.threshold)
        X = map_images(backbone, images, stage).to(next(backbone.parameters()).device)
        U = F.normalize(X, dim=1)
        with torch.no_grad():
            memberships = [head(X).softmax(1) for head in heads]
            losses = [self._selection_loss(U, P) for P in memberships]
        best = min(range(len(heads)), key=lambda h: losses[h])
        semi.head = heads[best]
        semi.labels[:] = reliable_labels(U, memberships[best], agreement=self.agreement)
        self._train(semi, stage, images, stage_seed(seed, 2), "Semi-supervised")

    def _untrained(self, backbone: ResNet18) -> SemiSupervised:
        head = projection_head(backbone.dim, backbone.dim, self.n_clusters)
        return SemiSupervised(backbone, head, torch.empty(0, dtype=torch.long), self.threshold)

    def _selection_loss(self, U: Tensor, P: Tensor) -> float:
        rows, labels = prototype_labels(U, P, self.center_ratio)
        return float(F.cross_entropy(P[rows], labels))

    def _train_heads(self, backbone: nn.Module, images: Images, stage: Settings, seed: int) -> list[nn.Sequential]:
        """Heads (n, D) -> (n, k) trained on prototype pseudo-labels with the backbone fixed."""
        augmentation = default_augmentation(stage)
        device = next(backbone.parameters()).device
        generator = torch.Generator().manual_seed(seed)
        n, D = len(images), feature_dim(backbone, stage.size)
        with seeded(seed):
            heads = [projection_head(D, D, self.n_clusters).to(device) for _ in range(self.n_heads)]
        optimizer = Adam([p for head in heads for p in head.parameters()], lr=0.005)
        batch = min(n, self.head_batch)
        with progress_bar(self.head_epochs, desc="Heads", unit="epochs", enabled=self.verbose) as bar:
            for epoch in range(self.head_epochs):
                order = torch.randperm(n, generator=generator)
                for start in range(0, n - batch + 1, batch):
                    rows = order[start : start + batch]
                    X, S = (
                        view_features(
                            backbone, view, images[rows.numpy()], draw(batch, seed=seed, step=epoch, view=start + v)
                        )
                        for v, view in enumerate((weak(augmentation), strong(augmentation)))
                    )
                    self._fit_batch(heads, optimizer, X, S, generator)
                bar.update()
        return heads

    def _fit_batch(
        self, heads: list[nn.Sequential], optimizer: torch.optim.Optimizer, X: Tensor, S: Tensor, generator: Any
    ) -> None:
        """Train all heads on the pseudo-labels of one batch, given features of weak and strong views (n, D)."""
        with torch.no_grad():
            U = F.normalize(X, dim=1)
            targets = [prototype_labels(U, head(X).softmax(1), self.center_ratio) for head in heads]
        for _ in range(self.repeats):
            order = torch.randperm(len(targets[0][0]), generator=generator)
            for part in torch.split(order, 128):
                losses = [
                    double_softmax_loss(head(S[rows[part]]), labels[part])
                    for head, (rows, labels) in zip(heads, targets, strict=True)
                ]
                optimizer.zero_grad(set_to_none=True)
                torch.stack(losses).mean().backward()  # type: ignore[no-untyped-call]
                optimizer.step()


class SemiSupervised(HeadMethod):
    """FixMatch: cross-entropy with known labels, and consistency of strong views with confident weak ones.

    ``labels (n,)`` are those of the training images, -1 if unknown.
    """

    training_only: ClassVar = frozenset({"labels"})
    labels: Tensor

    def __init__(self, backbone: nn.Module, head: nn.Module, labels: Tensor, threshold: float) -> None:
        super().__init__(backbone, head)
        self.threshold = threshold
        self.register_buffer("labels", labels)

    def augmentations(self, augmentation: Augmentation) -> tuple[Augmentation, ...]:
        return weak(augmentation), strong(augmentation)

    def loss(self, views: list[Tensor], batch: Batch) -> Loss:
        logits = self.logits(self.backbone(torch.cat(views)))
        weak_logits, strong_logits = (batch.gather(rows) for rows in logits.chunk(2))
        labels = self.labels[torch.from_numpy(batch.rows).to(self.labels.device)]
        return Loss(fixmatch_terms(weak_logits, strong_logits, labels, self.threshold), weak_logits)


def prototype_labels(U: Tensor, P: Tensor, center_ratio: float) -> tuple[Tensor, Tensor]:
    """Pseudo-labels by prototypes, given unit rows ``U (n, D)`` and memberships ``P (n, k)``.

    The prototype of a cluster is the mean of the ``center_ratio n/k`` rows of largest membership; the n/k rows of
    largest inner product with it have its label. A row may have several labels, or none.

    Returns:
        Rows and their labels, (n/k * k,) each, ordered by label.

    >>> U = torch.tensor([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0], [0.2, 0.8]])
    >>> prototype_labels(U, U, 0.5)
    (tensor([0, 1, 2, 3]), tensor([0, 0, 1, 1]))
    """
    n, k = P.shape
    size = max(1, n // k)
    confident = P.topk(max(1, int(center_ratio * size)), dim=0).indices  # (m, k)
    prototypes = U[confident].mean(0)  # (k, D)
    rows = (prototypes @ U.T).topk(size, dim=1).indices.flatten()
    return rows, torch.arange(k, device=P.device).repeat_interleave(size)


def double_softmax_loss(logits: Tensor, labels: Tensor) -> Tensor:
    """Cross-entropy of the softmax of the memberships, not of the logits (n, k): labels are trusted less.

    >>> round(double_softmax_loss(torch.tensor([[100.0, 0.0]]), torch.tensor([0])).item(), 3)  # log(1 + 1/e)
    0.313
    """
    return F.cross_entropy(logits.softmax(1), labels)


def reliable_labels(
    U: Tensor, P: Tensor, *, n_neighbors: int = 100, agreement: float = 0.9, confidence: float = 0.99
) -> Tensor:
    """Labels (n,) of the reliable rows, -1 for the others, given unit rows ``U (n, D)`` and memberships ``P (n, k)``.

    A row is reliable if its largest membership exceeds ``confidence`` and the fraction ``agreement`` of its neighbours
    has its label. All clusters get equally many labels: see ``SPICE``.

    >>> U, P = torch.eye(2).repeat(8, 1), 0.01 + 0.98 * torch.eye(2).repeat(8, 1)
    >>> reliable_labels(U, P, confidence=0.5).unique(return_counts=True)
    (tensor([0, 1]), tensor([8, 8]))
    """
    n, k = P.shape
    labels = P.argmax(1)
    nearest = top_similar(U, n_positives(n, k, n_neighbors))[1]
    agreements = (labels[nearest] == labels[:, None]).float().mean(1)
    reliable = (agreements >= agreement) & (P.amax(1) > confidence)
    count = max(n // (10 * k), 1, int(torch.bincount(labels[reliable], minlength=k).min()))
    chosen = torch.full_like(labels, -1)
    order = (agreements + 2 * reliable).argsort(descending=True, stable=True)  # reliable rows first
    for cluster in range(k):
        rows = order[labels[order] == cluster][:count]
        chosen[rows] = cluster
    return chosen


def fixmatch_terms(weak: Tensor, strong: Tensor, labels: Tensor, threshold: float) -> dict[str, Tensor]:
    """Cross-entropy of weak views with known labels (n,), and of strong views with confident predictions.

    ``weak`` and ``strong`` are logits (n, k); unknown labels are -1. Both terms are averages over their rows, the
    second one with 0 for rows without a confident prediction.

    >>> logits = torch.tensor([[100.0, 0.0], [0.0, 0.0]])
    >>> terms = fixmatch_terms(logits, torch.zeros(2, 2), torch.tensor([-1, 1]), 0.95)
    >>> [round(value.item(), 3) for value in terms.values()]  # log 2 and (log 2) / 2
    [0.693, 0.347]
    """
    known = labels >= 0
    supervised = F.cross_entropy(weak[known], labels[known]) if known.any() else 0 * weak.sum()
    confidence, target = weak.detach().softmax(1).max(1)
    consistency = (F.cross_entropy(strong, target, reduction="none") * (confidence >= threshold)).mean()
    return {"labels": supervised, "consistency": consistency}
