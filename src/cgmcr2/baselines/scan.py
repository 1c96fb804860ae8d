"""SCAN: consistency of neighbours and balance of clusters, then self-labelling."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .deep import MinibatchBaseline, NeighbourSampler, n_positives

EPS = 1e-8  # lower bound of the argument of a logarithm


def entropy(P: Tensor) -> Tensor:
    """Entropy ``-sum_c q_c log q_c`` of the mean ``q`` of the memberships ``P (..., b, k)``; returns (...).

    >>> entropy(torch.eye(2)).exp().round(decimals=4)
    tensor(2.)
    """
    q = P.mean(-2)
    return -(q * q.clamp_min(EPS).log()).sum(-1)  # clamped so that empty clusters have a finite gradient


def scan_loss(P: Tensor, Q: Tensor, mu: float) -> Tensor:
    """Consistency of neighbours minus entropy: ``- mean_i log <P_i, Q_i> - mu H(mean_i P_i)``.

    ``P (..., b, k)`` are memberships of b rows, ``Q (..., b, k)`` of one neighbour of each row; returns one loss per
    head (...).

    >>> P = torch.eye(2)
    >>> scan_loss(P, P, mu=1.0).exp()
    tensor(0.5000)
    """
    similarity = (P * Q).sum(-1)
    return -similarity.clamp_min(EPS).log().mean(-1) - mu * entropy(P)


def self_label_loss(logits: Tensor, P: Tensor, threshold: float) -> Tensor:
    """Class-balanced cross-entropy of ``logits (b, k)`` with the pseudo-labels of ``P (b, k)``.

    Only rows whose largest membership exceeds ``threshold`` are used, and every cluster has the same weight. The loss
    is 0 if there is no such row.

    >>> P = torch.tensor([[0.999, 0.001], [0.6, 0.4]])
    >>> bool(self_label_loss(torch.zeros(2, 2), P, 0.99).isclose(torch.tensor(2.0).log()))
    True
    """
    confidence, target = P.max(-1)
    confident = confidence > threshold
    if not confident.any():
        return 0 * logits.sum()
    weight = 1 / torch.bincount(target[confident], minlength=P.shape[-1]).clamp_min(1).to(logits.dtype)
    return F.cross_entropy(logits[confident], target[confident], weight=weight)


class LinearHeads(nn.Module):
    """Linear heads on standardised features: maps ``X (n, D)`` to logits (h, n, k) of h heads.

    In evaluation mode it returns the logits (n, k) of the selected ``head``. The input is scaled to unit rows, centred
    by ``mean (D,)`` and divided by the scalar ``scale``.
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
        """Set ``mean`` and ``scale`` so that the rows of ``X (n, D)`` have mean 0 and mean square 1."""
        U = F.normalize(X, dim=1)
        self.mean.copy_(U.mean(0))
        self.scale.copy_((U - self.mean).square().mean().sqrt().clamp_min(EPS))

    def forward(self, X: Tensor) -> Tensor:
        logits = self.logits(self.standardised(X))
        return logits if self.training else logits[int(self.head)]

    def standardised(self, X: Tensor) -> Tensor:
        """Return the input (n, D) of the heads."""
        return (F.normalize(X, dim=1) - self.mean) / self.scale

    def logits(self, X: Tensor) -> Tensor:
        """Return the logits (h, n, k) of all heads for standardised rows ``X (n, D)``."""
        logits: Tensor = self.linear(X).view(len(X), *self.shape).transpose(0, 1)
        return logits


@dataclass(kw_only=True, eq=False, repr=False)
class SCAN(MinibatchBaseline):
    """SCAN: semantic clustering by adopting nearest neighbours, on fixed features.

    The first stage trains several linear heads::

        min  - mean_i log <P_i, Q_i> - mu H(mean_i P_i)

    where P_i are the memberships of row i, Q_i those of a random nearest neighbour (by cosine similarity), and H is the
    entropy. The head of lowest loss over all rows is kept. The optional second stage is self-labelling: rows whose
    largest membership exceeds ``threshold`` are pseudo-labelled, and the head is trained on perturbed copies of them
    with a class-balanced cross-entropy.

    Differences from the authors' code (github.com/wvangansbeke/Unsupervised-Classification): for small images they
    train a ResNet with augmentations; for ImageNet, the first stage trains 10 linear heads with batches of 512, 100
    epochs, 50 neighbours and mu = 5. Features cannot be augmented, so neighbours are the only positives, and
    self-labelling perturbs features by ``dropout``. It is off by default, because without augmentations it changes ACC
    by -7.4 on digits, 0.0 on AID and +2.0 on DTD. Their SGD with a learning rate of 5 on unit rows left clusters
    empty (at best 79 of 102 used on Flowers-102), so features are standardised and the optimiser is Adam, as theirs is
    for small images. The number of neighbours is capped at a quarter of the mean cluster size, since more neighbours
    cross clusters. There are at most 3,000 steps. The two losses and their gradients equal theirs (tested against an
    independent transcription), except that they bound the logarithm of the similarity at -100, here at log 1e-8. The
    entropy assumes clusters of equal size; SCAN fails on imbalanced data (the CgMCR² paper reports this on
    Flowers-102).

    Parameters
    ----------
    mu : float
        Weight of the entropy; the CgMCR² paper searches 1 to 2000.
    n_neighbors : int
        Maximum number of neighbours of a row used as positives.
    n_heads : int
        Number of linear heads; the one of lowest loss is kept.
    max_steps, self_label_steps : int
        Maximum number of steps of the first and of the second stage; the authors self-label for 10,000 steps on
        CIFAR-10.
    batch_size : int
        Batch size of both stages.
    lr : float
        Maximum change of a logit in one step; Adam's learning rate is lr / D.
    threshold : float
        Confidence above which a row is pseudo-labelled.
    dropout : float
        Fraction of the features dropped in the second stage.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.repeat(np.eye(3), 5, axis=0)
    >>> len(set(SCAN(3, max_steps=100, self_label_steps=5).fit_predict(X)))
    3
    """

    name = "scan"
    reference = "Van Gansbeke, Vandenhende, Georgoulis, Proesmans and Van Gool, ECCV 2020"

    mu: float = 5.0
    n_neighbors: int = 50
    n_heads: int = 10
    max_steps: int = 3000
    batch_size: int = 512
    lr: float = 0.1
    self_label_steps: int = 0
    threshold: float = 0.99
    dropout: float = 0.2

    def _build(self, D: int) -> nn.Module:
        return LinearHeads(D, self.n_clusters, self.n_heads)

    def _train(self, network: nn.Module, X: Tensor, seed: int) -> None:
        assert isinstance(network, LinearHeads)
        n, D = X.shape
        m = n_positives(n, self.n_clusters, self.n_neighbors)
        positives = NeighbourSampler(F.normalize(X, dim=1), m)
        network.standardise(X)
        inputs = network.standardised(X)  # once, not in every step

        def losses(rows: Tensor) -> Tensor:
            """Return the loss (h,) of each head."""
            pairs = torch.cat([inputs[rows], inputs[positives(rows)]])
            P, Q = network.logits(pairs).softmax(-1).chunk(2, dim=1)  # (h, b, k) each
            return scan_loss(P, Q, self.mu)

        lr = self.lr / D
        self.history_ = self._run_training(
            network,
            lambda rows: losses(rows).sum(),
            n,
            batch_size=self.batch_size,
            lr=lr,
            seed=seed,
        )
        with torch.no_grad():
            network.head = losses(torch.arange(n, device=X.device)).argmin()
        head = int(network.head)

        def self_label(rows: Tensor) -> Tensor:
            with torch.no_grad():
                P = network(X[rows])[head].softmax(-1)
            return self_label_loss(network(F.dropout(X[rows], self.dropout))[head], P, self.threshold)

        self._run_training(
            network,
            self_label,
            n,
            max_steps=self.self_label_steps,
            batch_size=self.batch_size,
            lr=lr,
            seed=seed + 1,
            desc=f"{self.name}, self-labelling",
        )
