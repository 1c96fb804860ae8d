"""GCC, Graph Contrastive Clustering: views and neighbours of an image are positives of both contrasts."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cgmcr2.baselines.scan import entropy
from cgmcr2.graphs.knn import top_similar
from cgmcr2.objectives._checks import without_autocast

from .clusterer import ClusteringMethod, ImageClusterer
from .method import Batch, Loss, projection_head, random_neighbours
from .settings import Settings


class GraphContrastiveClustering(ClusteringMethod):
    r"""Graph contrastive clustering.

    .. math:: -\frac2n \sum_i \log \frac{e^{\langle z_i, z'_i \rangle / \tau} + w_i e^{\langle z_i, n_i \rangle / \tau}}
              {\sum_j e^{\langle z_i, z'_j \rangle / \tau} + e^{\langle z_i, n_j \rangle / \tau}}
              + \mathrm{CE}(\hat P^\top \hat Q) + \lambda (\log k - H(\bar p))

    where ``z_i`` and ``z'_i`` are unit embeddings of two views of image i, ``n_i`` that of a random neighbour, and
    ``w_i`` the weight of the edge to it; ``P`` and ``Q`` (n, k) are the memberships of the images and of those
    neighbours, with columns of unit length in ``CE``, the cross-entropy of finding each cluster of one in the other.
    The neighbours are the ``m`` most similar rows of a moving average of the embeddings of each image, renewed after
    every few epochs. In the first epochs there are none, and the first term alone is trained.

    Differences from the authors' code (github.com/mynameischaos/GCC): one random neighbour of the 5 nearest per image
    and step (theirs: the three nearest, and a fourth at random for the clusters: six views per image instead of three);
    edges have the weight ``m / sqrt(d_i d_j)`` of the normalised Laplacian, with degrees d (theirs: ``sqrt(3 / d_j)``,
    which also scales the embedding); positives are part of the denominator in all epochs; the moving average is
    exponential (theirs: the mean of the last four); other images are negatives by their second view and their neighbour
    (theirs: also by their first view); crops have at least 0.08 of the area (theirs: 0.2); 200 epochs instead of 1,000,
    10 instead of 50 of them without neighbours, and a learning rate of 0.06 instead of 0.4, which is for a schedule of
    that length.

    Parameters
    ----------
    n_clusters : int
        Number of clusters k.
    dim : int
        Dimension of the embedding.
    temperature : float
        Temperature of the contrast of images; that of clusters is 1.
    neighbours : int
        Number m of neighbours of an image.
    decay : float
        Decay of the moving average of the embeddings.
    pretext_epochs, every : int
        Epochs without neighbours, and epochs between two searches of neighbours.
    balance : float
        Weight lambda of the balance of the clusters.

    References
    ----------
    Zhong, Wu, Chen, Huang, Deng, Nie, Lin and Hua, Graph Contrastive Clustering, ICCV 2021.
    """

    defaults: ClassVar = {"optimizer": "sgd", "lr": 0.06, "weight_decay": 1e-4}
    training_only: ClassVar = frozenset({"bank", "nearest", "degrees", "seen"})
    may_be_zero: ClassVar = frozenset({"pretext_epochs", "decay", "balance"})
    bank: Tensor
    nearest: Tensor
    degrees: Tensor
    seen: Tensor

    def __init__(
        self,
        backbone: nn.Module,
        D: int,
        n: int,
        *,
        n_clusters: int = 10,
        dim: int = 128,
        temperature: float = 0.1,
        neighbours: int = 5,
        decay: float = 0.5,
        pretext_epochs: int = 10,
        every: int = 5,
        balance: float = 2.0,
    ) -> None:
        super().__init__(backbone)
        self.temperature, self.decay, self.balance = temperature, decay, balance
        self.pretext_epochs, self.every = pretext_epochs, every
        self.head = projection_head(D, D, dim)
        self.cluster_head = nn.Linear(D, n_clusters)
        self.register_buffer("bank", torch.zeros(n, dim))  # moving average of the embeddings
        self.register_buffer("nearest", torch.full((n, min(neighbours, n - 1)), -1))  # -1: not searched yet
        self.register_buffer("degrees", torch.ones(n))
        self.register_buffer("seen", torch.zeros((), dtype=torch.long))  # images in all steps
        self._embedding: Tensor | None = None  # of the current batch

    @classmethod
    def check(cls, settings: Settings, options: Mapping[str, Any]) -> None:
        super().check(settings, options)
        if options["decay"] >= 1:
            raise ValueError(f"decay must be below 1, but is {options['decay']!r}.")
        pretext = options["pretext_epochs"]
        if settings.epochs < max(pretext, 1) + 1:
            raise ValueError(
                f"gcc trains its clusters after pretext_epochs, {pretext} (at least 1), but epochs is "
                f"{settings.epochs:g}; give more epochs, or fewer pretext_epochs."
            )

    def companions(self, batch: Batch) -> list[npt.NDArray[np.int64]]:
        """One random neighbour of each image; none before the first search."""
        return [random_neighbours(self.nearest, batch)] if self._searched else []

    def loss(self, views: list[Tensor], batch: Batch) -> Loss:
        features = self.backbone(torch.cat(views))
        Z = [batch.gather(rows) for rows in F.normalize(self.head(features), dim=1).chunk(len(views))]
        self._embedding = Z[1].detach()
        if len(views) == 2:
            return Loss({"contrast": 2 * graph_contrast(Z[0], Z[1:], None, self.temperature)}, Z[0])
        P, _, Q = (batch.gather(rows.float().softmax(1)) for rows in self.logits(features).chunk(3))
        weights = self._weights(batch)
        terms = {
            "contrast": 2 * graph_contrast(Z[0], Z[1:], weights, self.temperature),
            "cluster": cluster_contrast(P, Q),
            "balance": self.balance * (math.log(P.shape[1]) - entropy(P)),
        }
        return Loss(terms, Z[0])

    @torch.no_grad()
    def after_step(self, batch: Batch) -> None:
        """Update the moving average, and search neighbours at the end of an epoch."""
        assert self._embedding is not None
        rows, n = torch.from_numpy(batch.rows).to(self.bank.device), len(self.bank)
        self.bank[rows] = self.decay * self.bank[rows] + (1 - self.decay) * self._embedding
        before = int(self.seen) // n
        self.seen += len(rows)
        epoch = int(self.seen) // n
        due = not self._searched or (epoch - self.pretext_epochs) % self.every == 0
        if epoch > before and epoch >= self.pretext_epochs and due:
            _, self.nearest[:] = top_similar(F.normalize(self.bank, dim=1), self.nearest.shape[1])
            self.degrees[:] = degrees(self.nearest)

    @property
    def _searched(self) -> bool:
        """Whether neighbours have been searched."""
        return int(self.nearest[0, 0]) >= 0

    def _weights(self, batch: Batch) -> Tensor:
        """Weights (n,) of the edges from the images to their neighbours in the batch."""
        rows, others = (torch.from_numpy(part) for part in (batch.rows, *self.companions(batch)))
        return self.nearest.shape[1] / (self.degrees[rows] * self.degrees[others]).sqrt()


class GCC(ImageClusterer):
    """Graph contrastive clustering of images; its settings are those of ``GraphContrastiveClustering``."""

    name = "gcc"
    reference = "Zhong, Wu, Chen, Huang, Deng, Nie, Lin and Hua, Graph Contrastive Clustering, ICCV 2021"


def graph_contrast(Z: Tensor, others: list[Tensor], weights: Tensor | None, temperature: float) -> Tensor:
    """Minus the mean logarithm of the share of the positives of each row of ``Z (n, d)``.

    ``others`` are the second views (n, d) and, if ``weights (n,)`` are given, one neighbour (n, d) of each image.

    >>> Z = torch.eye(2)
    >>> round(graph_contrast(Z, [Z, Z], torch.ones(2), 1.0).item(), 3)  # log(2 e + 2) - log(2 e)
    0.313
    """
    with without_autocast(Z):
        logits = Z @ torch.cat(others).T / temperature  # (n, n) or (n, 2n)
    positives = [logits[:, : len(Z)].diagonal()]
    if weights is not None:
        positives.append(logits[:, len(Z) :].diagonal() + weights.log())
    return (logits.logsumexp(1) - torch.stack(positives).logsumexp(0)).mean()


def cluster_contrast(P: Tensor, Q: Tensor) -> Tensor:
    """Cross-entropy of finding each column of ``P (n, k)`` among those of ``Q (n, k)`` by cosine similarity.

    >>> round(cluster_contrast(torch.eye(2), torch.eye(2)).item(), 3)  # log(e + 1) - 1
    0.313
    """
    with without_autocast(P):
        similarity = F.normalize(P, dim=0).T @ F.normalize(Q, dim=0)  # (k, k)
    return F.cross_entropy(similarity, torch.arange(len(similarity), device=P.device))


def degrees(nearest: Tensor) -> Tensor:
    """Number of neighbours (n,) in the graph that joins each row with its ``nearest (n, m)``, and they with it.

    >>> degrees(torch.tensor([[1], [0], [0]]))
    tensor([2., 1., 1.])
    """
    n, m = nearest.shape
    rows = torch.arange(n, device=nearest.device).repeat_interleave(m)
    pairs = torch.stack([rows, nearest.flatten()]).sort(0).values
    edges = pairs.unique(dim=1)  # type: ignore[no-untyped-call]
    return torch.bincount(edges.flatten(), minlength=n).float()
