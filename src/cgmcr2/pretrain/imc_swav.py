"""IMC-SwAV: swapped prediction of prototype assignments, and a classifier of maximal mutual information with them."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cgmcr2.objectives._checks import full_precision, without_autocast

from .augment import Augmentation, multi_crop
from .clusterer import ClusteringMethod, ImageClusterer
from .method import Batch, Loss

LOGIT_BOUND, BOUND_WEIGHT = 5.0, 0.01  # of the authors: larger logits of the classifier are penalised


class InformationSwav(ClusteringMethod):
    r"""SwAV with information maximisation.

    .. math:: -\sum_{i \in \{1, 2\}} \sum_{j \ne i} \overline{\langle Q_i, \log \mathrm{softmax}(U_j / \tau) \rangle}
              + \mathrm{mean}_{i, j} [H(Y_i | U_j) - \beta H(Y_i)]

    where ``U_j`` (n, m) are the cosine similarities of view j with m prototypes, ``Q_i`` their balanced assignment by
    Sinkhorn's iteration on ``exp(U_i / eps)`` for the two large views, and ``Y_i`` (n, k) the memberships of a
    classifier on fixed features. The first term (averaged over the pairs) trains the network and the prototypes, the
    second one the classifier.

    Differences from the authors' code (github.com/foiv0s/imc-swav-pub): cosine annealing (theirs: steps, and a decay of
    0.8 of Adam's first moment); prototypes have unit length in the forward pass (theirs are rescaled before it);
    200 epochs instead of 500; warm-up in epochs; the sizes of the crops are fractions of that of the images, equal to
    theirs at 32 pixels. The losses equal theirs.

    Parameters
    ----------
    n_clusters : int
        Number of clusters k.
    prototypes, dim : int
        Number of prototypes m, and their dimension.
    temperature, eps : float
        Temperature tau of the prediction and eps of the assignment.
    sinkhorn_steps : int
        Iterations of Sinkhorn's algorithm.
    balance : float
        Weight beta of the entropy.
    hidden_dim : int
        Width of the classifier.
    local_views : int
        Number of small crops.
    frozen_steps : int
        Steps after which the prototypes are trained too.

    References
    ----------
    Ntelemis, Jin and Thomas, Information Maximization Clustering via Multi-View Self-Labelling, 2022.
    Caron et al., Unsupervised Learning of Visual Features by Contrasting Cluster Assignments, NeurIPS 2020.
    """

    defaults: ClassVar = {"optimizer": "adam", "lr": 5e-4, "weight_decay": 1e-5, "warmup_epochs": 2.0}
    may_be_zero: ClassVar = frozenset({"local_views", "frozen_steps", "balance"})

    def __init__(
        self,
        backbone: nn.Module,
        D: int,
        n: int,
        *,
        n_clusters: int = 10,
        prototypes: int = 1000,
        dim: int = 128,
        temperature: float = 0.1,
        eps: float = 0.05,
        sinkhorn_steps: int = 3,
        balance: float = 4.0,
        hidden_dim: int = 1024,
        local_views: int = 4,
        frozen_steps: int = 500,
    ) -> None:
        super().__init__(backbone)
        self.temperature, self.eps, self.sinkhorn_steps, self.balance = temperature, eps, sinkhorn_steps, balance
        self.local_views, self.frozen_steps = local_views, frozen_steps
        self.head = nn.Sequential(nn.Linear(D, D), nn.Linear(D, dim))  # linear, as the authors'
        self.prototypes = nn.Parameter(F.normalize(torch.randn(prototypes, dim), dim=1))
        self.classifier = nn.Sequential(
            nn.Linear(D, hidden_dim),
            nn.BatchNorm1d(hidden_dim),
            nn.ReLU(),
            nn.Linear(hidden_dim, hidden_dim),
            nn.BatchNorm1d(hidden_dim),
            nn.ReLU(),
            nn.Linear(hidden_dim, n_clusters),
        )

    def augmentations(self, augmentation: Augmentation) -> tuple[Augmentation, ...]:
        """Two large crops and some small ones: 28 and 18 of 32 pixels."""
        large = dataclasses.replace(augmentation, size=round(augmentation.size * 28 / 32), grey=0.25)
        small = round(augmentation.size * 18 / 32)
        return multi_crop(
            large, n_local=self.local_views, local_size=small, global_scale=(0.2, 1.0), local_scale=(0.08, 0.4)
        )

    def logits(self, features: Tensor) -> Tensor:
        logits: Tensor = self.classifier(features)
        return logits

    def loss(self, views: list[Tensor], batch: Batch) -> Loss:
        groups = [torch.cat(views[:2])] + ([torch.cat(views[2:])] if len(views) > 2 else [])
        features = torch.cat([self.backbone(group) for group in groups])  # views of equal size in one pass
        Z = F.normalize(self.head(features), dim=1)
        prototypes = F.normalize(self.prototypes, dim=1)
        if batch.step < self.frozen_steps:
            prototypes = prototypes.detach()
        Y = self.logits(features.detach())
        U = [batch.gather(rows) for rows in similarities(Z, prototypes).chunk(len(views))]
        Y_views = [batch.gather(rows) for rows in Y.chunk(len(views))]
        information = [information_loss(y, u.detach() / self.temperature, self.balance) for y in Y_views for u in U]
        bound = (torch.cat(Y_views).abs() - LOGIT_BOUND).relu().sum(1).mean()
        terms = {
            "swap": swapped_prediction(U, self.temperature, self.eps, self.sinkhorn_steps),
            "information": torch.stack(information).mean(),
            "bound": BOUND_WEIGHT * bound,
        }
        return Loss(terms, batch.gather(Z.chunk(len(views))[0]))


class IMCSwAV(ImageClusterer):
    """IMC-SwAV of images; its settings are those of ``InformationSwav``.

    The crops are smaller than the images, so the statistics of BatchNorm differ. After the training they are set to
    those of the training images (the authors adapt them on 50 batches of the test images).
    """

    name = "imc-swav"
    reference = "Ntelemis, Jin and Thomas, Information Maximization Clustering via Multi-View Self-Labelling, 2022"


def similarities(Z: Tensor, prototypes: Tensor) -> Tensor:
    """Inner products (n, m) of the rows of ``Z (n, d)`` and of ``prototypes (m, d)``, in float32 at least."""
    Z, prototypes = full_precision(Z, prototypes)
    with without_autocast(Z):
        return Z @ prototypes.T


@torch.no_grad()
def sinkhorn_assignment(U: Tensor, eps: float, steps: int) -> Tensor:
    """Rows of ``exp(U / eps)``, ``U (n, m)``, rescaled so that they sum to 1 and the columns to nearly n / m.

    >>> sinkhorn_assignment(torch.eye(2), 1.0, 3).sum(0)
    tensor([1., 1.])
    """
    log = U.float() / eps
    for _ in range(steps):
        log = log - log.logsumexp(0, keepdim=True)
        log = log - log.logsumexp(1, keepdim=True)
    return log.exp()


def swapped_prediction(U: list[Tensor], temperature: float, eps: float, steps: int) -> Tensor:
    """Mean cross-entropy of predicting the assignment of each of the first two of the views ``U (n, m)`` from another.

    >>> U = [torch.eye(2), torch.eye(2)]
    >>> round(swapped_prediction(U, 1.0, 0.01, 3).item(), 3)  # log(e + 1) - 1
    0.313
    """
    losses = []
    for i in range(2):
        Q = sinkhorn_assignment(U[i].detach(), eps, steps)
        losses += [-(Q * (u / temperature).log_softmax(1)).sum(1).mean() for j, u in enumerate(U) if j != i]
    return torch.stack(losses).mean()


def information_loss(Y: Tensor, U: Tensor, balance: float) -> Tensor:
    """``H(Y|U) - balance H(Y)`` of the joint distribution of classes and prototypes with logits (n, k) and (n, m).

    >>> certain = 100 * torch.eye(2)
    >>> round(information_loss(certain, certain, 4.0).item(), 3)  # 0 - 4 log 2
    -2.773
    """
    with without_autocast(Y):
        P = Y.softmax(1).T @ U.softmax(1) / len(Y)  # (k, m)
    log_P, log_U, log_Y = (p.clamp_min(1e-30).log() for p in (P, P.sum(0), P.sum(1, keepdim=True)))
    return (P * (log_U - log_P)).sum() + balance * (P * log_Y).sum()
