"""NMCE: rate reduction with a Gumbel-softmax cluster head, trained in three stages."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cgmcr2.model import gumbel_softmax
from cgmcr2.objectives import cluster_coding_rate, coding_rate

from .deep import MinibatchBaseline, NeighbourSampler, cosine_annealing


@dataclass(kw_only=True, eq=False, repr=False)
class NMCE(MinibatchBaseline):
    r"""Neural manifold clustering and embedding, on fixed features.

    Stage 1 trains the embedding with the coding rate and the similarity of two views of each row; stage 2 trains the
    cluster head and the feature head with the trunk fixed; stage 3 trains all layers:

    .. math:: \text{1: } -R(Z)/2 - \lambda\, \overline{\langle z, z' \rangle} \qquad
              \text{2, 3: } (R_c(\bar Z, \bar\Pi) - R(\bar Z))/2

    where ``z`` and ``z'`` are the embeddings of the two views of a row (their similarity is averaged over all rows),
    ``Pi`` are Gumbel-softmax memberships, and ``Z`` and ``Pi`` with a bar are means over both views, with mean
    embeddings scaled to unit length.

    Differences from the authors' code: features cannot be augmented, so the second view is a nearest neighbour (by
    cosine similarity, among at most a tenth of the mean cluster size); Adam instead of LARS, and instead of SGD with a
    constant learning rate of 0.5 and a weight decay of 5e-3 for the cluster head (here, its rate is annealed, too); the
    similarity of the views is used in stage 1 only (their script also subtracts ``z_weight`` times the similarity in
    stages 2 and 3); at most 1,000 steps per stage and width 1024 instead of 600 + 100 + 100 epochs and 4096; the
    learning rate of stage 3 is a tenth of that of stage 2 (theirs: a hundredth, for ten times as many epochs). Of the
    learning rates 1e-3, 3e-3 and 1e-2, tried on AID, digits and 1,600 rows of CIFAR-100, 3e-3 was best on AID and left
    few of many clusters empty. Predictions use no Gumbel noise.

    Parameters
    ----------
    hidden_dim, embedding_dim : int
        Width of the trunk (the authors' 4096) and of Z.
    eps : float
        Distortion; eps^2 = 0.2 in the authors' command.
    pull : float
        Weight lambda of the similarity in stage 1; 30 in the authors' command.
    n_neighbors : int
        Number of nearest neighbours from which the second view of a row is drawn; 0 trains without a second view.
    temperature : float
        Temperature of the Gumbel-softmax.
    max_steps : int
        Maximum number of steps of each of the three stages.
    batch_size, lr, weight_decay
        Batch size, learning rate and weight decay of Adam with cosine annealing in each stage; stage 3 uses a tenth of
        lr.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.repeat(np.eye(3), 20, axis=0) + 0.1 * np.random.default_rng(0).random((60, 3))
    >>> NMCE(3, hidden_dim=16, embedding_dim=8, max_steps=2).fit_predict(X).shape
    (60,)
    """

    name = "nmce"
    reference = "Li, Chen, LeCun and Sommer, Neural Manifold Clustering and Embedding, 2022"

    hidden_dim: int = 1024
    embedding_dim: int = 128
    eps: float = 0.2**0.5
    pull: float = 30.0
    n_neighbors: int = 10
    temperature: float = 1.0
    max_steps: int = 1000
    batch_size: int = 512
    lr: float = 3e-3
    weight_decay: float = 1e-4

    def _build(self, D: int) -> nn.Module:
        return EmbeddingAndLogits(D, self.n_clusters, self.hidden_dim, self.embedding_dim)

    def _logits(self, network: nn.Module, X: Tensor) -> Tensor:
        logits: Tensor = network(F.normalize(X, dim=1))[1]
        return logits

    def _train(self, network: nn.Module, X: Tensor, seed: int) -> None:
        assert isinstance(network, EmbeddingAndLogits)
        X, n = F.normalize(X, dim=1), len(X)
        m = min(self.n_neighbors, max(1, n // (10 * self.n_clusters)), n - 1)
        second_view = NeighbourSampler(X, m) if self.n_neighbors else None

        def forward(rows: Tensor) -> tuple[Tensor, Tensor]:
            """Return unit embeddings (v, b, d) and memberships (v, b, k) of the v views."""
            views = [rows] if second_view is None else [rows, second_view(rows)]
            Z, logits = network(X[torch.cat(views)])
            Pi = gumbel_softmax(logits, self.temperature)
            return Z.view(len(views), len(rows), -1), Pi.view(len(views), len(rows), -1)

        def embedding_loss(rows: Tensor) -> Tensor:
            Z, _ = forward(rows)
            similarity = (Z[0] * Z[-1]).sum(-1).mean() if second_view is not None else Z.new_zeros(())
            rate = torch.stack([coding_rate(view, self.eps) for view in Z]).mean()
            return -rate / 2 - self.pull * similarity

        def clustering_loss(rows: Tensor) -> Tensor:
            return nmce_loss(*forward(rows), self.eps)

        losses = (embedding_loss, clustering_loss, clustering_loss)
        self.history_ = []
        for stage, loss in enumerate(losses):
            network.trunk.requires_grad_(stage != 1)
            self.history_ += self._run_training(
                network,
                loss,
                n,
                batch_size=self.batch_size,
                lr=self.lr * (1, 1, 0.1)[stage],
                weight_decay=self.weight_decay,
                seed=seed + stage,
                schedule=cosine_annealing,
                desc=f"{self.name}, stage {stage + 1}",
            )


class EmbeddingAndLogits(nn.Module):
    """Two linear heads on Linear-BatchNorm-ReLU: maps ``X (n, D)`` to unit rows ``Z (n, d)`` and logits (n, k)."""

    def __init__(self, D: int, k: int, hidden: int, d: int) -> None:
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(D, hidden), nn.BatchNorm1d(hidden), nn.ReLU())
        self.feature = nn.Linear(hidden, d)
        self.cluster = nn.Linear(hidden, k)

    def forward(self, X: Tensor) -> tuple[Tensor, Tensor]:
        T = self.trunk(X)
        return F.normalize(self.feature(T), dim=1), self.cluster(T)


def nmce_loss(Z: Tensor, Pi: Tensor, eps: float) -> Tensor:
    """``(Rc - R) / 2`` of the mean of the views ``Z (v, b, d)``, scaled to unit rows, and of ``Pi (v, b, k)``.

    >>> Z, Pi = torch.eye(2).expand(2, 2, 2), torch.eye(2).expand(2, 2, 2)
    >>> round(nmce_loss(Z, Pi, 0.5).item(), 4)  # (log 9 - 2 log 5) / 2
    -0.5108
    """
    mean = F.normalize(Z.mean(0), dim=-1)
    return (cluster_coding_rate(mean, Pi.mean(0), eps) - coding_rate(mean, eps)) / 2
