"""PRO-DSC: a self-expressive model whose embedding cannot collapse, with block-diagonal coefficients."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.linalg
import scipy.sparse.linalg
import torch
import torch.nn.functional as F
from sklearn.cluster import KMeans
from sklearn.metrics import pairwise_distances_argmin
from torch import Tensor, nn

from cgmcr2.objectives import coding_rate

from .base import Arrays, Float32, Int64
from .deep import DeepBaseline, in_blocks, train


def self_expression(Y: Tensor, eta: float, iterations: int = 1) -> tuple[Tensor, Tensor]:
    """Coefficients ``C (n, n)`` by which rows are to express each other, and the affinity ``A = (|C| + |C|') / 2``.

    ``|C|`` is ``exp(|YY'| / eta)`` scaled by Sinkhorn steps: row sums to 1, then column sums, in turn, ``iterations``
    in all; its diagonal is then set to 0, and C has the signs of ``YY'``. ``Y (n, d)`` has unit rows.

    >>> C, A = self_expression(torch.eye(2), eta=1.0)
    >>> A.round(decimals=3)
    tensor([[0.0000, 0.2690],
            [0.2690, 0.0000]])
    """
    G = Y @ Y.T
    log_C = G.abs() / eta
    for i in range(iterations):
        log_C = log_C - log_C.logsumexp(1 - i % 2, keepdim=True)
    magnitude = log_C.exp()
    magnitude = magnitude - magnitude.diagonal().diag()
    A = (magnitude + magnitude.T) / 2
    return G.sign() * A, A


def block_diagonal_penalty(A: Tensor, k: int) -> Tensor:
    """The sum of the k smallest eigenvalues of ``L = diag(A 1) - A``: 0 where A has at least k connected components.

    Computed as ``tr(U' L U)`` with the eigenvectors U held fixed, which has the right value and the right gradient.

    >>> float(block_diagonal_penalty(torch.zeros(3, 3), 2))
    0.0
    """
    L = A.sum(1).diag() - A
    with torch.no_grad():
        wanted = (0, min(k, len(A)) - 1)
        U = torch.from_numpy(scipy.linalg.eigh(L.cpu().numpy(), subset_by_index=wanted)[1]).to(L)
    return (U * (L @ U)).sum()


def prodsc_loss(Z: Tensor, Y: Tensor, k: int, *, gamma: float, beta: float, eta: float, iterations: int) -> Tensor:
    """``-1/2 logdet(I + d/(n eps^2) Z'Z) + gamma/(2n) |Z' - Z'C|_F^2 + beta/n (k smallest eigenvalues of L(A))``.

    ``Z (n, d)`` embedding and ``Y (n, d)`` cluster head, unit rows; eps^2 = 0.1.
    """
    C, A = self_expression(Y, eta, iterations)
    residual = Z.T - Z.T @ C  # (d, n)
    expression = residual.square().sum() / 2
    return rate_loss(Z) + (gamma * expression + beta * block_diagonal_penalty(A, k)) / len(Z)


def rate_loss(Z: Tensor) -> Tensor:
    """``-1/2 logdet(I + d/(n eps^2) Z'Z)`` with eps^2 = 0.1: it falls as the rows of ``Z (n, d)`` spread."""
    return -coding_rate(Z, math.sqrt(0.1)) / 2


class Network(nn.Module):
    """``X (n, D)`` -> unit rows ``Z (n, d)``, ``Y (n, d)``: two linear heads on Linear-BatchNorm-ReLU-Linear-ReLU."""

    def __init__(self, D: int, hidden: int, d: int) -> None:
        super().__init__()
        self.trunk = nn.Sequential(
            nn.Linear(D, hidden), nn.BatchNorm1d(hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU()
        )
        self.feature = nn.Linear(hidden, d)
        self.cluster = nn.Linear(hidden, d)

    def forward(self, X: Tensor) -> tuple[Tensor, Tensor]:
        H = self.trunk(X)
        return F.normalize(self.feature(H), dim=1), F.normalize(self.cluster(H), dim=1)


class PRODSC(DeepBaseline):
    """PRO-DSC: deep subspace clustering by a regularised self-expressive model.

    Two heads give unit rows Z, an embedding, and Y, from which the self-expressive coefficients are made,
    ``|C| = Sinkhorn(|YY'| / eta)`` without its diagonal::

        min  -1/2 logdet(I + d/(n eps^2) Z'Z) + gamma/2 |Z' - Z'C|_F^2 + beta sum of the k smallest eigenvalues of L(A)

    with ``A = (|C| + |C|')/2``: the first term keeps Z from collapsing, the second makes rows express each other, the
    third makes A a graph of k components. After a warm-up by the first term alone, the feature head is copied into the
    cluster head. In the end: spectral clustering of ``|YY'|``.

    Where ours differs from the authors' code (github.com/mengxianghan123/PRO-DSC): they cluster each set of rows that
    is evaluated by itself, so a row's cluster depends on the others. Here the spectral clustering is of at most
    ``landmarks`` rows of the fit, and every row, of the fit or new, is assigned by the Nyström extension of its
    eigenvectors and the nearest centre: the same where there are no more rows than landmarks. For a CPU's sake
    the hidden width is 1,024, not 4,096, and the batches have 512 rows below 50 clusters, not 1,024; the learning rate
    is 1e-3, not 1e-4, since a quarter of the width moves a quarter as far in a step and there are fewer steps (at 1e-4
    and 144 steps it was far below k-means on CIFAR-10).
    gamma, beta and eta are those of their CIFAR-10 file below 50 clusters and of their CIFAR-100
    file from there on, and small data is trained for at least ``min_steps`` steps. As in their code, one Sinkhorn step
    is taken, so that rows sum to 1 and columns nearly so.

    Parameters
    ----------
    gamma, beta, eta : weights of expression and blocks, Sinkhorn's temperature; None: by the number of clusters
    sinkhorn_steps : 1 on all of the authors' data but one, where it is 5
    hidden_dim, embedding_dim : network
    epochs, batch_size, lr, weight_decay, cluster_weight_decay, momentum : of SGD
    min_steps : epochs are added until there are so many steps
    warmup : part of the steps that the first term has alone
    landmarks : rows of the spectral clustering

    >>> X = np.repeat(np.eye(3), 5, axis=0)
    >>> len(set(PRODSC(3, hidden_dim=64, min_steps=50).fit_predict(X)))
    3
    """

    name = "pro-dsc"
    reference = "Meng, Huang, He, Qi, Xiao and Li, ICLR 2025"

    def __init__(
        self,
        n_clusters: int = 10,
        *,
        random_state: int = 0,
        gamma: float | None = None,
        beta: float | None = None,
        eta: float | None = None,
        sinkhorn_steps: int = 1,
        hidden_dim: int = 1024,
        embedding_dim: int = 128,
        epochs: int = 20,
        batch_size: int | None = None,
        lr: float = 1e-3,
        weight_decay: float = 1e-4,
        cluster_weight_decay: float = 5e-3,
        momentum: float = 0.9,
        min_steps: int = 300,
        warmup: float = 0.4,
        landmarks: int = 5000,
        device: str = "auto",
        verbose: bool = False,
    ) -> None:
        self.n_clusters = n_clusters
        self.random_state = random_state
        self.gamma = gamma
        self.beta = beta
        self.eta = eta
        self.sinkhorn_steps = sinkhorn_steps
        self.hidden_dim = hidden_dim
        self.embedding_dim = embedding_dim
        self.epochs = epochs
        self.batch_size = batch_size
        self.lr = lr
        self.weight_decay = weight_decay
        self.cluster_weight_decay = cluster_weight_decay
        self.momentum = momentum
        self.min_steps = min_steps
        self.warmup = warmup
        self.landmarks = landmarks
        self.device = device
        self.verbose = verbose

    def _build(self, D: int) -> nn.Module:
        return Network(D, self.hidden_dim, self.embedding_dim)

    def _train(self, network: nn.Module, X: Tensor, seed: int) -> None:
        assert isinstance(network, Network)
        n, k = len(X), self.n_clusters
        gamma, beta, eta = (300.0, 600.0, 0.175) if k < 50 else (150.0, 500.0, 0.1)
        weights: dict[str, Any] = {
            "gamma": gamma if self.gamma is None else self.gamma,
            "beta": beta if self.beta is None else self.beta,
            "eta": eta if self.eta is None else self.eta,
            "iterations": self.sinkhorn_steps,
        }

        def sgd(parameters: list[nn.Parameter], lr: float, weight_decay: float) -> torch.optim.Optimizer:
            own = [*network.trunk.parameters(), *network.feature.parameters()]
            groups = [
                {"params": own, "weight_decay": weight_decay},
                {"params": list(network.cluster.parameters()), "weight_decay": self.cluster_weight_decay},
            ]
            return torch.optim.SGD(groups, lr=lr, momentum=self.momentum)

        def loss(rows: Tensor) -> Tensor:
            Z, Y = network(X[rows])
            return prodsc_loss(Z, Y, k, **weights)

        batch_size = self.batch_size or (512 if k < 50 else 1024)
        steps = max(1, min(math.ceil(n / batch_size), n // 2))
        epochs = max(self.epochs, math.ceil(self.min_steps / steps))
        warmup = round(self.warmup * epochs)
        settings: dict[str, Any] = {
            "batch_size": batch_size,
            "lr": self.lr,
            "weight_decay": self.weight_decay,
            "optimizer": sgd,
            "verbose": self.verbose,
        }
        train(
            network,
            lambda rows: rate_loss(network(X[rows])[0]),
            n,
            epochs=warmup,
            seed=seed,
            title="warm-up",
            **settings,
        )
        network.cluster.load_state_dict(network.feature.state_dict())
        self.history_ = train(
            network,
            loss,
            n,
            epochs=epochs - warmup,
            seed=seed + 1,
            title="pro-dsc",
            **settings,
        )

    def _fit(self, X: Float32, seed: int) -> Int64:
        self.landmarks_ = None
        super()._fit(X, seed)
        random = np.random.default_rng(seed)
        n, k = len(X), self.n_clusters
        chosen = np.sort(random.choice(n, self.landmarks, replace=False)) if n > self.landmarks else np.arange(n)
        Y = self._cluster_rows(X[chosen])
        self.landmarks_, self.extension_ = Y, spectral_extension(Y, k, seed)
        model = KMeans(k, n_init=10, random_state=seed % 2**32).fit(self._eigenvectors(Y))
        self.centers_ = model.cluster_centers_.astype(np.float32)
        return self._predict(X)

    def _predict(self, X: Float32) -> Int64:
        if self.landmarks_ is None:  # in the midst of the fit
            return np.zeros(len(X), dtype=np.int64)
        return np.asarray(pairwise_distances_argmin(self._eigenvectors(self._cluster_rows(X)), self.centers_))

    def _cluster_rows(self, X: Float32) -> Float32:
        Y: Float32 = in_blocks(lambda block: self.network_(block)[1], self.network_, X).numpy()
        return Y

    def _eigenvectors(self, Y: Float32) -> Float32:
        """(n, k) of each row of ``Y (n, d)``, scaled to unit length, a block at a time."""
        assert self.landmarks_ is not None
        blocks = [np.abs(Y[i : i + 4096] @ self.landmarks_.T) @ self.extension_ for i in range(0, len(Y), 4096)]
        V = np.concatenate(blocks)
        return np.asarray(V / np.maximum(np.linalg.norm(V, axis=1, keepdims=True), 1e-12), dtype=np.float32)

    def _state(self) -> Arrays:
        assert self.landmarks_ is not None
        own = {"landmarks_": self.landmarks_, "extension_": self.extension_, "centers_": self.centers_}
        return {**super()._state(), **own}

    def _restore(self, arrays: Arrays) -> None:
        self.landmarks_ = arrays.pop("landmarks_")
        self.extension_, self.centers_ = arrays.pop("extension_"), arrays.pop("centers_")
        super()._restore(arrays)


def spectral_extension(Y: Float32, k: int, seed: int = 0) -> Float32:
    """(m, k) the matrix E for which ``|yY'| E`` is, up to its length, a row y's k leading eigenvectors of
    ``deg^(-1/2) |YY'| deg^(-1/2)``, for the rows of ``Y (m, d)`` exactly (Nyström).
    """
    A = np.abs(Y @ Y.T).astype(np.float64)
    scale: npt.NDArray[np.float64] = 1 / np.sqrt(np.maximum(A.sum(1), 1e-12))
    M = scale[:, None] * A * scale
    m = len(Y)
    if m <= 500 or 4 * k >= m:
        w, V = scipy.linalg.eigh(M, subset_by_index=(m - k, m - 1))
    else:
        first = np.random.default_rng(seed).standard_normal(m)
        w, V = scipy.sparse.linalg.eigsh(M, k=k, which="LA", v0=first, tol=1e-6)
    safe = np.where(np.abs(w) > 1e-9, w, np.inf)  # a direction that the affinity does not have is left out
    return np.asarray(scale[:, None] * V / safe, dtype=np.float32)
