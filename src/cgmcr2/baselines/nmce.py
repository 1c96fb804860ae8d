"""NMCE: -R + Rc with a Gumbel cluster head, in stages, and views of a row that must stay close."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cgmcr2.consensus.views import among_themselves
from cgmcr2.model import gumbel_softmax
from cgmcr2.objectives import cluster_coding_rate, coding_rate

from .deep import DeepBaseline, cosine, train


class NMCE(DeepBaseline):
    r"""Neural manifold clustering and embedding, on fixed features.

    Stage 1 learns the embedding with the total coding rate and the pull between two views of a row, stage 2 the cluster
    head (on the pre-feature as it is) and the feature head, stage 3 everything:

    .. math:: \text{1: } -R(Z)/2 - \lambda\, \overline{z'z''} \qquad
              \text{2, 3: } (R_c(\bar Z, \bar\Pi) - R(\bar Z))/2

    where ``Z``, ``Z''`` are the views' embeddings, the bar their (unit) mean, and ``Pi`` Gumbel-softmax memberships.

    Parameters
    ----------
    hidden_dim, embedding_dim : width of the pre-feature layer (the authors' 4096), and of Z
    eps : distortion; the authors' command has eps^2 = 0.2
    pull : lambda, of the first stage, 30 in the authors' command (the others have 0)
    neighbours : a row's second view is one of so many nearest rows; 0: no second view, and no pull
    temperature : of the Gumbel-softmax
    epochs : of the three stages
    batch_size, lr, weight_decay : of Adam, cosine annealing in each stage; the rate of the third is a tenth
    min_steps : epochs are added to a stage until it has so many steps

    Differs from the authors' code: features have no augmentations, so the second view is a nearest neighbour (by
    cosine, among at most a tenth of a cluster's mean size); Adam in place of LARS; 5 + 10 + 10 epochs and width 1024 in
    place of 600 + 100 + 100 and 4096; the third stage's rate a tenth of the second's, where theirs is a hundredth for
    ten times as many epochs. Of the rates 1e-3, 3e-3 and 1e-2, tried on AID, digits and 1,600
    rows of CIFAR-100, 3e-3 was best on the first and empties few of many clusters. Predictions have no noise.

    >>> import numpy as np
    >>> X = np.repeat(np.eye(3), 20, axis=0) + 0.1 * np.random.default_rng(0).random((60, 3))
    >>> NMCE(3, hidden_dim=16, embedding_dim=8, epochs=(1, 1, 1), min_steps=0).fit_predict(X).shape
    (60,)
    """

    name = "nmce"
    reference = "Li, Chen, LeCun and Sommer, Neural Manifold Clustering and Embedding, 2022"

    def __init__(
        self,
        n_clusters: int = 10,
        *,
        random_state: int = 0,
        hidden_dim: int = 1024,
        embedding_dim: int = 128,
        eps: float = 0.2**0.5,
        pull: float = 30.0,
        neighbours: int = 10,
        temperature: float = 1.0,
        epochs: tuple[int, int, int] = (5, 10, 10),
        batch_size: int = 512,
        min_steps: int = 150,
        lr: float = 3e-3,
        weight_decay: float = 1e-4,
        device: str = "auto",
        verbose: bool = False,
    ) -> None:
        self.n_clusters = n_clusters
        self.random_state = random_state
        self.hidden_dim = hidden_dim
        self.embedding_dim = embedding_dim
        self.eps = eps
        self.pull = pull
        self.neighbours = neighbours
        self.temperature = temperature
        self.epochs = epochs
        self.batch_size = batch_size
        self.min_steps = min_steps
        self.lr = lr
        self.weight_decay = weight_decay
        self.device = device
        self.verbose = verbose

    def _build(self, D: int) -> nn.Module:
        return LinearHeads(D, self.n_clusters, self.hidden_dim, self.embedding_dim)

    def _scores(self, network: nn.Module, X: Tensor) -> Tensor:
        logits: Tensor = network(F.normalize(X, dim=1))[1]
        return logits

    def _train(self, network: nn.Module, X: Tensor, seed: int) -> None:
        assert isinstance(network, LinearHeads)
        X, n = F.normalize(X, dim=1), len(X)
        m = min(self.neighbours, max(1, n // (10 * self.n_clusters)), n - 1)
        near = among_themselves(X, m) if self.neighbours else None

        def views(rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            """(v, b, d) unit embeddings, (v, b, k) memberships of the v views, and their mean cosine."""
            both = [rows]
            if near is not None:
                both.append(near[rows, torch.randint(near.shape[1], (len(rows),), device=rows.device)])
            Z, logits = network(X[torch.cat(both)])
            Z = Z.view(len(both), len(rows), -1)
            Pi = gumbel_softmax(logits, self.temperature).view(len(both), len(rows), -1)
            similarity = (Z[0] * Z[-1]).sum(-1).mean() if near is not None else Z.new_zeros(())
            return Z, Pi, similarity

        def spread(rows: Tensor) -> Tensor:
            Z, _, similarity = views(rows)
            rate = torch.stack([coding_rate(view, self.eps) for view in Z]).mean()
            return -rate / 2 - self.pull * similarity

        def reduce(rows: Tensor) -> Tensor:
            Z, Pi, _ = views(rows)
            return nmce_loss(Z, Pi, self.eps)

        self.history_ = []
        for stage, (epochs, loss) in enumerate(zip(self.epochs, (spread, reduce, reduce), strict=True)):
            network.trunk.requires_grad_(stage != 1)
            self.history_ += train(
                network,
                loss,
                n,
                epochs=epochs,
                batch_size=self.batch_size,
                min_steps=self.min_steps,
                lr=self.lr * (1, 1, 0.1)[stage],
                weight_decay=self.weight_decay,
                seed=seed + stage,
                rate=cosine,
                verbose=self.verbose,
                title=f"{self.name}, stage {stage + 1}",
            )


class LinearHeads(nn.Module):
    """``X (n, D)`` -> unit rows ``Z (n, d)`` and logits (n, k): two linear heads on Linear-BatchNorm-ReLU."""

    def __init__(self, D: int, k: int, hidden: int, d: int) -> None:
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(D, hidden), nn.BatchNorm1d(hidden), nn.ReLU())
        self.feature = nn.Linear(hidden, d)
        self.cluster = nn.Linear(hidden, k)

    def forward(self, X: Tensor) -> tuple[Tensor, Tensor]:
        T = self.trunk(X)
        return F.normalize(self.feature(T), dim=1), self.cluster(T)


def nmce_loss(Z: Tensor, Pi: Tensor, eps: float) -> Tensor:
    """``(Rc - R) / 2`` of the unit mean of the views ``Z (v, b, d)`` and of their mean memberships ``Pi (v, b, k)``.

    >>> Z, Pi = torch.eye(2).expand(2, 2, 2), torch.eye(2).expand(2, 2, 2)
    >>> round(nmce_loss(Z, Pi, 0.5).item(), 4)  # (log 9 - 2 log 5) / 2
    -0.5108
    """
    mean = F.normalize(Z.mean(0), dim=-1)
    return (cluster_coding_rate(mean, Pi.mean(0), eps) - coding_rate(mean, eps)) / 2
