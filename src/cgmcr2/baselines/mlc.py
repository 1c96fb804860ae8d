"""MLC and CPP: rate reduction with doubly stochastic memberships, then spectral clustering."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cgmcr2.objectives import cluster_coding_rate, coding_rate
from cgmcr2.objectives._checks import without_autocast

from .base import Arrays, Float32, Int64
from .deep import MinibatchBaseline, apply_in_batches
from .spectral import NystromMap, fit_graph, neighbours

CANDIDATES = (2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 25, 30, 40, 50, 75, 100, 150, 200)


@dataclass(kw_only=True, eq=False, repr=False)
class MLC(MinibatchBaseline):
    r"""Manifold linearizing and clustering, on fixed features.

    .. math:: \min -R(Z) + R_c(Z, \Pi) + \frac{\mu}{2} \|\Pi\|_F^2, \qquad
              \Pi = \mathrm{Sinkhorn}(|C C'| / \eta) \in \mathbb{R}^{n \times n}

    over batches of n rows, where ``Z`` and ``C`` are the unit rows of the feature head and of the cluster head (both
    rates are halved, as in the authors' code). Every row of a batch defines a cluster. The warm-up minimises ``-R``
    alone; afterwards the cluster head is initialised as a copy of the feature head. The final clusters are a normalized
    cut of the neighbour graph of ``C``.

    Differences from the authors' code (github.com/LeslieTrue/CPP): Adam (theirs: SGD with momentum, and a weight decay
    of 5e-3 for the cluster head); batches of 512, width 1024 and 25 + 100 steps (theirs on CIFAR-10: batches of 1,024,
    width 4096 and 50 + 680 steps); the final graph has the s largest cosine similarities of ``C`` over all rows
    (theirs: the dense ``Pi`` of one batch); new rows are labelled by the Nyström extension. More training is not
    better: from 100 to 200 steps, ACC changes by +1.0 on digits, -5.7 on AID and -1.3 on DTD.

    Parameters
    ----------
    hidden_dim, embedding_dim : int
        Width of the trunk (the authors' 4096) and of both heads.
    eps : float
        Distortion; the authors' eps^2 = 0.1.
    eta : float
        Temperature of the Sinkhorn iteration.
    sinkhorn_steps : int
        Row or column normalisations of the Sinkhorn iteration.
    mu : float
        Weight of the regulariser; 0.05 in the authors' code.
    warmup_steps, max_steps : int
        Steps on -R alone, and maximum number of steps on the full objective.
    batch_size, lr, weight_decay
        Batch size, learning rate and weight decay of Adam.
    s : int
        Neighbours of each row in the final graph.

    Examples
    --------
    >>> X = np.repeat(np.eye(3), 20, axis=0) + 0.1 * np.random.default_rng(0).random((60, 3))
    >>> MLC(3, hidden_dim=16, embedding_dim=8, max_steps=2).fit_predict(X).shape
    (60,)
    """

    name = "mlc"
    reference = "Ding, Tong, Chan, Dai, Ma and Haeffele, Unsupervised Manifold Linearizing and Clustering, ICCV 2023"

    hidden_dim: int = 1024
    embedding_dim: int = 128
    eps: float = 0.1**0.5
    eta: float = 0.175
    sinkhorn_steps: int = 5
    mu: float = 0.05
    warmup_steps: int = 25
    max_steps: int = 100
    batch_size: int = 512
    lr: float = 1e-4
    weight_decay: float = 1e-4
    s: int = 10

    def _build(self, D: int) -> nn.Module:
        return TwoHeads(D, self.hidden_dim, self.embedding_dim)

    def _train(self, network: nn.Module, X: Tensor, seed: int) -> None:
        assert isinstance(network, TwoHeads)
        X = F.normalize(X, dim=1)

        def expansion(rows: Tensor) -> Tensor:
            return -coding_rate(network(X[rows])[0], self.eps) / 2

        def objective(rows: Tensor) -> Tensor:
            Z, C = network(X[rows])
            return mlc_loss(Z, C, self.eps, self.eta, self.sinkhorn_steps, self.mu)

        network.cluster.requires_grad_(False)
        warmup_history = self._run_training(
            network,
            expansion,
            len(X),
            max_steps=self.warmup_steps,
            batch_size=self.batch_size,
            weight_decay=self.weight_decay,
            seed=seed,
            desc=f"{self.name}, warm-up",
        )
        network.cluster.load_state_dict(network.feature.state_dict())
        network.cluster.requires_grad_(True)
        self.history_ = warmup_history + self._run_training(
            network,
            objective,
            len(X),
            batch_size=self.batch_size,
            weight_decay=self.weight_decay,
            seed=seed + 1,
        )

    def _fit(self, X: Float32, seed: int) -> Int64:
        self._fit_network(X, seed)
        Z, C = self._embed(X)
        nearest = neighbours(C, self.s)
        self.n_clusters_ = self._choose_n_clusters(Z, C, nearest, seed)
        labels, self.map_, _ = fit_graph(C, nearest, self.n_clusters_, None, seed)
        return labels

    def _choose_n_clusters(self, Z: Float32, C: Float32, nearest: tuple[Float32, Int64], seed: int) -> int:
        return self.n_clusters

    def _predict(self, X: Float32) -> Int64:
        return self.map_.predict(self._embed(X)[1])

    def _embed(self, X: Float32) -> tuple[Float32, Float32]:
        """Return the unit rows of the feature head and of the cluster head, (n, d) each."""
        both = apply_in_batches(
            lambda rows: torch.cat(self.network_(F.normalize(rows, dim=1)), 1), self.network_, X
        ).numpy()
        return both[:, : self.embedding_dim], np.ascontiguousarray(both[:, self.embedding_dim :])

    def _state(self) -> Arrays:
        return {**super()._state(), **{f"map.{name}": array for name, array in self.map_.arrays().items()}}

    def _restore(self, arrays: Arrays) -> None:
        map_arrays = {name: arrays.pop(name) for name in list(arrays) if name.startswith("map.")}
        self.map_ = NystromMap.from_arrays({name.removeprefix("map."): array for name, array in map_arrays.items()})
        self.n_clusters_ = len(self.map_.centres)
        super()._restore(arrays)


@dataclass(kw_only=True, eq=False, repr=False)
class CPP(MLC):
    """CPP: MLC on features of a pre-trained encoder, with optional choice of the number of clusters.

    With ``n_clusters="auto"``, the embedding is clustered for each of ``candidates``, and the number of clusters with
    the smallest ``coding_length`` is used.

    All other parameters, and the differences from the authors' code, are those of ``MLC``.

    Parameters
    ----------
    n_clusters : int or "auto"
        Number of clusters.
    candidates : sequence of int
        Numbers of clusters to try; those above n / 2 are skipped.

    Attributes
    ----------
    n_clusters_ : int
        Number of clusters used.
    coding_lengths_ : dict of int to float
        Coding length for each number of clusters that was tried.

    Examples
    --------
    >>> X = np.repeat(np.eye(3), 20, axis=0) + 0.1 * np.random.default_rng(0).random((60, 3))
    >>> CPP(3, hidden_dim=16, embedding_dim=8, max_steps=2).fit_predict(X).shape
    (60,)
    """

    name = "cpp"
    reference = (
        "Chu, Tong, Ding, Dai, Haeffele, Vidal and Ma, Image Clustering via the Principle of Rate Reduction, ICLR 2024"
    )

    n_clusters: int | Literal["auto"] = field(default=10, kw_only=False)  # type: ignore[assignment]
    candidates: Sequence[int] = CANDIDATES

    def _check_n_clusters(self, n: int) -> None:
        if self.n_clusters != "auto":
            super()._check_n_clusters(n)

    def _choose_n_clusters(self, Z: Float32, C: Float32, nearest: tuple[Float32, Int64], seed: int) -> int:
        if self.n_clusters != "auto":
            return self.n_clusters
        lengths = {
            k: coding_length(Z, fit_graph(C, nearest, k, None, seed, n_init=3)[0], self.eps)
            for k in self.candidates
            if k <= max(2, len(Z) // 2)
        }
        self.coding_lengths_ = lengths
        return min(lengths, key=lambda k: lengths[k])


class TwoHeads(nn.Module):
    """A feature head and a cluster head, linear with unit rows, on a shared trunk.

    Maps ``X (n, D)`` to ``Z (n, d)`` and ``C (n, d)``. The trunk is Linear-BatchNorm-ReLU-Linear-ReLU.
    """

    def __init__(self, D: int, hidden_dim: int, embedding_dim: int) -> None:
        super().__init__()
        self.trunk = nn.Sequential(
            nn.Linear(D, hidden_dim),
            nn.BatchNorm1d(hidden_dim),
            nn.ReLU(),
            nn.Linear(hidden_dim, hidden_dim),
            nn.ReLU(),
        )
        self.feature = nn.Linear(hidden_dim, embedding_dim)
        self.cluster = nn.Linear(hidden_dim, embedding_dim)

    def forward(self, X: Tensor) -> tuple[Tensor, Tensor]:
        T = self.trunk(X)
        return F.normalize(self.feature(T), dim=1), F.normalize(self.cluster(T), dim=1)


def sinkhorn_membership(C: Tensor, eta: float, steps: int) -> Tensor:
    """``Pi (n, n) = diag(u) exp(|C C'| / eta) diag(v)`` by alternating row and column normalisations.

    The first step normalises rows, so rows sum to 1 after an odd number of steps.

    >>> sinkhorn_membership(torch.eye(2), 0.5, 5).sum(1).round(decimals=4)
    tensor([1., 1.])
    """
    with without_autocast(C):
        K = (C @ C.T).abs() / eta
    u = v = K.new_zeros(len(K))
    for step in range(steps):
        if step % 2 == 0:
            u = -torch.logsumexp(K + v, dim=1)
        else:
            v = -torch.logsumexp(K + u.unsqueeze(1), dim=0).detach()  # no gradient through v, as in the authors' code
    return (K + u.unsqueeze(1) + v).exp()


def mlc_loss(Z: Tensor, C: Tensor, eps: float, eta: float, sinkhorn_steps: int, mu: float) -> Tensor:
    """MLC's objective ``(Rc(Z, Pi) - R(Z)) / 2 + mu/2 |Pi|_F^2`` for unit rows ``Z (n, d)`` and ``C (n, d)``."""
    Pi = sinkhorn_membership(C, eta, sinkhorn_steps)
    return (cluster_coding_rate(Z, Pi, eps, tolerance=1e-4) - coding_rate(Z, eps)) / 2 + mu / 2 * Pi.square().sum()


def coding_length(Z: Float32, labels: Int64, eps: float) -> float:
    """Nats needed to encode the labels (n,), and ``Z (n, d)`` cluster by cluster up to distortion eps.

    ``sum_l (n_l + d)/2 logdet(I + d/(n_l eps^2) Z_l'Z_l) - n_l log(n_l/n)`` (Ma et al., TPAMI 2007).

    >>> round(coding_length(np.eye(2, dtype=np.float32), np.array([0, 1]), 0.5), 3)  # 2 (3/2 log 9 + log 2)
    7.978
    """
    n, d = Z.shape
    total = 0.0
    for label in np.unique(labels):
        rows = torch.from_numpy(Z[labels == label])
        total += (len(rows) + d) / 2 * float(coding_rate(rows, eps)) - len(rows) * math.log(len(rows) / n)
    return total
