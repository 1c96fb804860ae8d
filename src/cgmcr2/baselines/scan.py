"""SCAN: a row and its nearest neighbours get the same cluster, and all clusters are used; then it teaches itself."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cgmcr2.consensus.views import among_themselves

from .deep import DeepBaseline, train

EPS = 1e-8


def entropy(P: Tensor) -> Tensor:
    """``-sum_c q_c log q_c`` of the mean ``q`` of the memberships ``P (..., b, k)``; -> (...).

    >>> entropy(torch.eye(2)).exp().round(decimals=4)
    tensor(2.)
    """
    q = P.mean(-2)
    return -(q * q.clamp_min(EPS).log()).sum(-1)  # an empty cluster has a gradient too


def scan_loss(P: Tensor, Q: Tensor, mu: float) -> Tensor:
    """``- mean_i log <P_i, Q_i> - mu H(mean_i P_i)``: neighbours agree, and the clusters are of equal size.

    ``P (..., b, k)`` memberships of b rows, ``Q (..., b, k)`` of one neighbour of each; -> (...), one loss a head.

    >>> P = torch.eye(2)
    >>> scan_loss(P, P, mu=1.0).exp()
    tensor(0.5000)
    """
    agreement = (P * Q).sum(-1)
    return -agreement.clamp_min(EPS).log().mean(-1) - mu * entropy(P)


def self_label_loss(logits: Tensor, P: Tensor, threshold: float) -> Tensor:
    """Cross-entropy of ``logits (b, k)`` to the clusters of ``P (b, k)``, over the rows whose largest membership is
    above ``threshold``; each cluster weighs the same, whatever number of its rows are confident. 0 where none is.

    >>> P = torch.tensor([[0.999, 0.001], [0.6, 0.4]])
    >>> bool(self_label_loss(torch.zeros(2, 2), P, 0.99).isclose(torch.tensor(2.0).log()))
    True
    """
    confidence, target = P.max(-1)
    sure = confidence > threshold
    if not sure.any():
        return 0 * logits.sum()
    weight = 1 / torch.bincount(target[sure], minlength=P.shape[-1]).clamp_min(1).to(logits.dtype)
    return F.cross_entropy(logits[sure], target[sure], weight=weight)


class LinearHeads(nn.Module):
    """``X (n, D)`` -> logits (h, n, k) of h linear heads; in evaluation (n, k), of the head in use.

    The input is scaled to unit rows, centred by ``mean (D,)`` and divided by one number, ``scale``.
    """

    mean: Tensor
    scale: Tensor
    head: Tensor

    def __init__(self, D: int, k: int, heads: int) -> None:
        super().__init__()
        self.shape = (heads, k)
        self.linear = nn.Linear(D, heads * k)
        self.register_buffer("mean", torch.zeros(D))
        self.register_buffer("scale", torch.tensor(1.0))
        self.register_buffer("head", torch.tensor(0))

    @torch.no_grad()
    def standardise(self, X: Tensor) -> None:
        """From now on the rows of ``X (n, D)`` reach the heads with mean 0 and a mean square of 1."""
        U = F.normalize(X, dim=1)
        self.mean.copy_(U.mean(0))
        self.scale.copy_((U - self.mean).square().mean().sqrt().clamp_min(EPS))

    def forward(self, X: Tensor) -> Tensor:
        X = (F.normalize(X, dim=1) - self.mean) / self.scale
        logits: Tensor = self.linear(X).view(len(X), *self.shape).transpose(0, 1)
        return logits if self.training else logits[int(self.head)]


class SCAN(DeepBaseline):
    """SCAN: semantic clustering by adopting nearest neighbours, on fixed features.

    First step, for several linear heads at once, with Q_i the memberships of a random one of row i's nearest
    neighbours by cosine::

        min  - mean_i log <P_i, Q_i> - mu H(mean_i P_i)

    The head of lowest loss over all rows is kept. Second step, self-labelling: rows whose largest membership is above
    ``threshold`` are taken as labelled, and the head is trained on disturbed copies of them by a cross-entropy in
    which each cluster weighs the same.

    Where ours differs from the authors' code (github.com/wvangansbeke/Unsupervised-Classification): theirs trains a
    ResNet with image augmentations for small images and, for ImageNet, linear heads only in the first step: 10 heads,
    batches of 512, 100 epochs, 50 neighbours, mu 5. Features cannot be augmented as images, so neighbours are the only
    positives, and self-labelling disturbs by ``dropout`` of features. Their SGD with rate 5 on unit rows left
    clusters empty (79 of 102 in use on Flowers-102 at best), so features are standardised and the optimiser is Adam, as
    theirs is for small images. Data with few rows a cluster gets fewer neighbours: a quarter of a cluster's mean
    size, or most pairs would be of two clusters. For a CPU's sake there are 20 epochs, and
    for small data at least ``min_steps`` steps. The entropy assumes clusters of equal size;
    on imbalanced data SCAN fails (the paper of CgMCR² sees it on Flowers-102).

    Parameters
    ----------
    mu : weight of the entropy; the paper of CgMCR² searches 1 to 2000
    n_neighbors : at most so many neighbours of each row are its positives
    n_heads : linear heads, of which the one of lowest loss is kept
    epochs, batch_size : of the first step
    lr : how far one step may move a logit; the rate of Adam is lr / D
    min_steps : epochs are added until there are so many steps
    self_label_epochs, threshold, dropout : of the second step; 0 epochs leave it out

    >>> import numpy as np
    >>> X = np.repeat(np.eye(3), 5, axis=0)
    >>> len(set(SCAN(3, min_steps=100, self_label_epochs=5).fit_predict(X)))
    3
    """

    name = "scan"
    reference = "Van Gansbeke, Vandenhende, Georgoulis, Proesmans and Van Gool, ECCV 2020"

    def __init__(
        self,
        n_clusters: int = 10,
        *,
        random_state: int = 0,
        mu: float = 5.0,
        n_neighbors: int = 50,
        n_heads: int = 10,
        epochs: int = 20,
        batch_size: int = 512,
        lr: float = 0.1,
        min_steps: int = 1000,
        self_label_epochs: int = 25,
        threshold: float = 0.99,
        dropout: float = 0.2,
        device: str = "auto",
        verbose: bool = False,
    ) -> None:
        self.n_clusters = n_clusters
        self.random_state = random_state
        self.mu = mu
        self.n_neighbors = n_neighbors
        self.n_heads = n_heads
        self.epochs = epochs
        self.batch_size = batch_size
        self.lr = lr
        self.min_steps = min_steps
        self.self_label_epochs = self_label_epochs
        self.threshold = threshold
        self.dropout = dropout
        self.device = device
        self.verbose = verbose

    def _build(self, D: int) -> nn.Module:
        return LinearHeads(D, self.n_clusters, self.n_heads)

    def _train(self, network: nn.Module, X: Tensor, seed: int) -> None:
        assert isinstance(network, LinearHeads)
        n = len(X)
        m = min(self.n_neighbors, n - 1, max(1, n // (4 * self.n_clusters)))
        neighbours = among_themselves(F.normalize(X, dim=1), m)
        network.standardise(X)

        def losses(rows: Tensor) -> Tensor:
            positive = neighbours[rows, torch.randint(m, rows.shape, device=X.device)]
            P, Q = network(torch.cat([X[rows], X[positive]])).softmax(-1).chunk(2, dim=1)  # (h, b, k) each
            return scan_loss(P, Q, self.mu)

        steps = max(1, min(math.ceil(n / self.batch_size), n // 2))
        epochs = max(self.epochs, math.ceil(self.min_steps / steps))
        self.history_ = train(
            network,
            lambda rows: losses(rows).sum(),
            n,
            epochs=epochs,
            batch_size=self.batch_size,
            lr=self.lr / X.shape[1],
            seed=seed,
            verbose=self.verbose,
            title="scan",
        )
        with torch.no_grad():
            network.head = losses(torch.arange(n, device=X.device)).argmin()
        head = int(network.head)

        def self_label(rows: Tensor) -> Tensor:
            with torch.no_grad():
                P = network(X[rows])[head].softmax(-1)
            return self_label_loss(network(F.dropout(X[rows], self.dropout))[head], P, self.threshold)

        train(
            network,
            self_label,
            n,
            epochs=self.self_label_epochs,
            batch_size=self.batch_size,
            lr=self.lr / X.shape[1],
            seed=seed + 1,
            verbose=self.verbose,
            title="self-labelling",
        )
