"""MLC and CPP: -R + Rc with a doubly stochastic membership of rows in rows, and spectral clustering at the end."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cgmcr2.objectives import cluster_coding_rate, coding_rate

from .base import Arrays, Float32, Int64
from .deep import DeepBaseline, in_blocks, train
from .spectral import NystromMap, fit_graph, neighbours

CANDIDATES = (2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 25, 30, 40, 50, 75, 100, 150, 200)


class MLC(DeepBaseline):
    r"""Manifold linearizing and clustering, on fixed features.

    .. math:: \min -R(Z) + R_c(Z, \Pi) + \frac{\mu}{2} \|\Pi\|_F^2, \qquad
              \Pi = \mathrm{Sinkhorn}(|C C'| / \eta) \in \mathbb{R}^{n \times n}

    over a batch of n rows, with the unit rows ``Z`` of the feature head and ``C`` of the cluster head (both rates
    halved, as in the authors' code); every row is a cluster that others belong to. After a warm-up on ``-R`` alone the
    cluster head starts as a copy of the feature head. In the end the rows are clustered by a normalized cut of ``C``.

    Parameters
    ----------
    hidden_dim, embedding_dim : of the trunk (the authors' 4096) and both heads
    eps : distortion; the authors' eps^2 = 0.1
    eta, sinkhorn : temperature and half steps of Sinkhorn's iteration
    mu : weight of the regulariser, 0.05 in the authors' code
    warmup, epochs : epochs on -R alone, and on the whole
    batch_size, lr, weight_decay : of Adam
    min_steps : epochs are added to those on the whole until there are so many steps, and a tenth of it to the warm-up;
        more is not better: on Flowers-102 200 steps gave 56 % where 40, ten epochs, gave 68 %
    s : neighbours of each row in the final graph

    Differs from the authors' code: Adam (theirs: SGD with momentum); batches of 512, width 1024, 1 + 10 epochs (theirs:
    1,000 to 2,000, 4096, up to 30: set them); the warm-up is counted in epochs. The final graph is that of the s
    largest cosines of ``C`` over all rows, where theirs is the dense ``Pi`` of one batch; new rows are mapped by the
    network and labelled by the Nyström extension.

    >>> X = np.repeat(np.eye(3), 20, axis=0) + 0.1 * np.random.default_rng(0).random((60, 3))
    >>> MLC(3, hidden_dim=16, embedding_dim=8, epochs=1, min_steps=0).fit_predict(X).shape
    (60,)
    """

    name = "mlc"
    reference = "Ding, Tong, Chan, Dai, Ma and Haeffele, Unsupervised Manifold Linearizing and Clustering, ICCV 2023"

    def __init__(
        self,
        n_clusters: Any = 10,
        *,
        random_state: int = 0,
        hidden_dim: int = 1024,
        embedding_dim: int = 128,
        eps: float = 0.1**0.5,
        eta: float = 0.175,
        sinkhorn: int = 5,
        mu: float = 0.05,
        warmup: int = 1,
        epochs: int = 10,
        batch_size: int = 512,
        min_steps: int = 0,
        lr: float = 1e-4,
        weight_decay: float = 1e-4,
        s: int = 10,
        device: str = "auto",
        verbose: bool = False,
    ) -> None:
        self.n_clusters = n_clusters
        self.random_state = random_state
        self.hidden_dim = hidden_dim
        self.embedding_dim = embedding_dim
        self.eps = eps
        self.eta = eta
        self.sinkhorn = sinkhorn
        self.mu = mu
        self.warmup = warmup
        self.epochs = epochs
        self.batch_size = batch_size
        self.min_steps = min_steps
        self.lr = lr
        self.weight_decay = weight_decay
        self.s = s
        self.device = device
        self.verbose = verbose

    def _build(self, D: int) -> nn.Module:
        return TwoHeads(D, self.hidden_dim, self.embedding_dim)

    def _train(self, network: nn.Module, X: Tensor, seed: int) -> None:
        assert isinstance(network, TwoHeads)
        X = F.normalize(X, dim=1)

        def whole(rows: Tensor) -> Tensor:
            Z, C = network(X[rows])
            return mlc_loss(Z, C, self.eps, self.eta, self.sinkhorn, self.mu)

        settings: dict[str, Any] = {
            "batch_size": self.batch_size,
            "lr": self.lr,
            "weight_decay": self.weight_decay,
            "verbose": self.verbose,
        }
        network.cluster.requires_grad_(False)
        expand = train(
            network,
            lambda rows: -coding_rate(network(X[rows])[0], self.eps) / 2,
            len(X),
            epochs=self.warmup,
            min_steps=self.min_steps // 10,
            seed=seed,
            title=f"{self.name}, warm-up",
            **settings,
        )
        network.cluster.load_state_dict(network.feature.state_dict())
        network.cluster.requires_grad_(True)
        self.history_ = expand + train(
            network,
            whole,
            len(X),
            epochs=self.epochs,
            min_steps=self.min_steps,
            seed=seed + 1,
            title=self.name,
            **settings,
        )

    def _fit(self, X: Float32, seed: int) -> Int64:
        self._learn(X, seed)
        Z, C = self._embed(X)
        nearest = neighbours(C, self.s)
        k = self.n_clusters
        if k == "auto":
            k, self.coding_lengths_ = self._choose(Z, C, nearest, seed)
        self.n_clusters_ = int(k)
        labels, self.map_, _ = fit_graph(C, nearest, self.n_clusters_, None, seed)
        return labels

    def _choose(
        self, Z: Float32, C: Float32, nearest: tuple[Float32, Int64], seed: int
    ) -> tuple[int, dict[int, float]]:
        raise NotImplementedError

    def _predict(self, X: Float32) -> Int64:
        return self.map_.predict(self._embed(X)[1])

    def _embed(self, X: Float32) -> tuple[Float32, Float32]:
        """The unit rows of both heads."""
        both = in_blocks(lambda rows: torch.cat(self.network_(F.normalize(rows, dim=1)), 1), self.network_, X).numpy()
        return both[:, : self.embedding_dim], np.ascontiguousarray(both[:, self.embedding_dim :])

    def _state(self) -> Arrays:
        return {**super()._state(), **{f"map.{name}": array for name, array in self.map_.arrays().items()}}

    def _restore(self, arrays: Arrays) -> None:
        own = {name.removeprefix("map."): array for name, array in arrays.items() if name.startswith("map.")}
        self.map_ = NystromMap.of(own)
        self.n_clusters_ = len(self.map_.centres)
        super()._restore({name: array for name, array in arrays.items() if not name.startswith("map.")})


class CPP(MLC):
    """CPP: MLC on features of a pre-trained encoder, and with ``n_clusters="auto"`` its search for k.

    The search clusters the learned codes with each of ``candidates`` and keeps the k of the shortest description: the
    bits of every cluster at distortion eps, and of saying which cluster a row is in (``coding_length``).
    ``coding_lengths_`` holds all of them, ``n_clusters_`` the one used.

    Parameters and differences are those of ``MLC``; ``candidates`` are the numbers tried, those up to n / 2.

    >>> X = np.repeat(np.eye(3), 20, axis=0) + 0.1 * np.random.default_rng(0).random((60, 3))
    >>> CPP(3, hidden_dim=16, embedding_dim=8, epochs=1, min_steps=0).fit_predict(X).shape
    (60,)
    """

    name = "cpp"
    reference = (
        "Chu, Tong, Ding, Dai, Haeffele, Vidal and Ma, Image Clustering via the Principle of Rate Reduction, ICLR 2024"
    )

    def __init__(
        self,
        n_clusters: int | str = 10,
        *,
        random_state: int = 0,
        hidden_dim: int = 1024,
        embedding_dim: int = 128,
        eps: float = 0.1**0.5,
        eta: float = 0.175,
        sinkhorn: int = 5,
        mu: float = 0.05,
        warmup: int = 1,
        epochs: int = 10,
        batch_size: int = 512,
        min_steps: int = 0,
        lr: float = 1e-4,
        weight_decay: float = 1e-4,
        s: int = 10,
        candidates: Sequence[int] = CANDIDATES,
        device: str = "auto",
        verbose: bool = False,
    ) -> None:
        super().__init__(
            n_clusters,
            random_state=random_state,
            hidden_dim=hidden_dim,
            embedding_dim=embedding_dim,
            eps=eps,
            eta=eta,
            sinkhorn=sinkhorn,
            mu=mu,
            warmup=warmup,
            epochs=epochs,
            batch_size=batch_size,
            min_steps=min_steps,
            lr=lr,
            weight_decay=weight_decay,
            s=s,
            device=device,
            verbose=verbose,
        )
        self.candidates = candidates

    def _check_n_clusters(self, n: int) -> None:
        if self.n_clusters != "auto":
            super()._check_n_clusters(n)

    def _choose(
        self, Z: Float32, C: Float32, nearest: tuple[Float32, Int64], seed: int
    ) -> tuple[int, dict[int, float]]:
        lengths = {
            k: coding_length(Z, fit_graph(C, nearest, k, None, seed, n_init=3)[0], self.eps)
            for k in self.candidates
            if k <= max(2, len(Z) // 2)
        }
        return min(lengths, key=lambda k: lengths[k]), lengths


class TwoHeads(nn.Module):
    """``X (n, D)`` -> unit rows ``Z (n, d)`` of the feature head and ``C (n, d)`` of the cluster head, on one trunk."""

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


def sinkhorn_membership(C: Tensor, eta: float, half_steps: int) -> Tensor:
    """``Pi (n, n) = diag(u) exp(|C C'| / eta) diag(v)`` with rows (after an odd number of steps) that sum to 1.

    >>> sinkhorn_membership(torch.eye(2), 0.5, 5).sum(1).round(decimals=4)
    tensor([1., 1.])
    """
    K = (C @ C.T).abs() / eta
    u = v = K.new_zeros(len(K))
    for step in range(half_steps):
        if step % 2 == 0:
            u = -torch.logsumexp(K + v, dim=1)
        else:
            v = -torch.logsumexp(K + u.unsqueeze(1), dim=0).detach()  # as the authors: no gradient through v
    return (K + u.unsqueeze(1) + v).exp()


def mlc_loss(Z: Tensor, C: Tensor, eps: float, eta: float, half_steps: int, mu: float) -> Tensor:
    """MLC's objective for unit rows ``Z (n, d)`` and ``C (n, d)``."""
    Pi = sinkhorn_membership(C, eta, half_steps)
    return (cluster_coding_rate(Z, Pi, eps, tolerance=1e-4) - coding_rate(Z, eps)) / 2 + mu / 2 * Pi.square().sum()


def coding_length(Z: Float32, labels: Int64, eps: float) -> float:
    """Nats to describe the rows ``Z (n, d)`` cluster by cluster up to distortion eps, and which cluster each is in.

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
