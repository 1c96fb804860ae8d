"""TEMI: heads that learn from their own slow copies that neighbours share information about their cluster."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cgmcr2.consensus.views import among_themselves, linear_views
from cgmcr2.model.network import StackedLinear

from .deep import DeepBaseline, Teacher, train

TEMPERATURE = 0.1  # of student and teacher
MARGINAL_MOMENTUM = 0.9  # of the clusters' sizes


def pointwise_mutual_information(S: Tensor, T: Tensor, marginal: Tensor, beta: float) -> Tensor:
    """``log sum_c (S_ic T_ic)^beta / p_c``: how much a pair shares, with beta < 1 against clusters that swallow others.

    ``S, T (..., b, k)`` memberships of both of each pair, ``marginal (..., k)`` the clusters' sizes; -> (..., b).

    >>> P = torch.eye(2)
    >>> pointwise_mutual_information(P, P, torch.full((2,), 0.5), beta=0.6).exp().tolist()
    [2.0, 2.0]
    """
    return ((S * T) ** beta / marginal.unsqueeze(-2)).sum(-1).log()


def temi_loss(S: tuple[Tensor, Tensor], T: tuple[Tensor, Tensor], marginal: Tensor, beta: float) -> Tensor:
    """``- mean_i w_i (pmi(S_i, T'_i) + pmi(S'_i, T_i)) / 2``, one loss a head.

    ``S, T``: the student's and the teacher's memberships (h, b, k) of the rows and of a neighbour of each (primed).
    A pair's weight ``w_i = mean_h <T_hi, T'_hi>`` is low where the heads doubt that both are of one cluster.
    """
    weight = (T[0] * T[1]).sum(-1).mean(0)  # (b,)
    both = [pointwise_mutual_information(s, t, marginal, beta) for s, t in ((S[0], T[1]), (S[1], T[0]))]
    return -(weight * (both[0] + both[1]) / 2).mean(-1)


class Heads(nn.Module):
    """``X (n, D)`` -> logits (h, n, k) of h heads: Linear-GELU-Linear, unit rows, product with k learned directions.

    In evaluation (n, k), of the head in use. The input is first scaled to unit rows, centred by ``mean (D,)`` and
    mapped by ``view (D, p)``.
    """

    mean: Tensor
    view: Tensor
    head: Tensor

    def __init__(self, D: int, p: int, k: int, heads: int, hidden: int, bottleneck: int) -> None:
        super().__init__()
        self.heads = heads
        self.first = nn.Linear(p, heads * hidden)  # the first layers of all heads in one product
        self.second = StackedLinear(heads, hidden, bottleneck)
        for weight, bias in ((self.first.weight, self.first.bias), (self.second.weight, self.second.bias)):
            nn.init.trunc_normal_(weight, std=0.02)
            nn.init.zeros_(bias)
        bound = 1 / math.sqrt(bottleneck)
        self.direction = nn.Parameter(torch.empty(heads, bottleneck, k).uniform_(-bound, bound))
        self.length = nn.Parameter(torch.ones(heads, 1, k))
        self.register_buffer("mean", torch.zeros(D))
        self.register_buffer("view", torch.eye(D, p))
        self.register_buffer("head", torch.tensor(0))

    def forward(self, X: Tensor) -> Tensor:
        X = (F.normalize(X, dim=1) - self.mean) @ self.view  # (n, p)
        H = F.gelu(self.first(X)).view(len(X), self.heads, -1).transpose(0, 1)
        H = F.normalize(self.second(H), dim=-1)  # (h, n, bottleneck)
        logits = H @ (F.normalize(self.direction, dim=1) * self.length)  # (h, n, k)
        return logits if self.training else logits[int(self.head)]


class TEMI(DeepBaseline):
    """TEMI: self-distillation of cluster heads by the pointwise mutual information of neighbours, on fixed features.

    With S the memberships by the student heads and T by their teachers (a slow average of the student), of a row i and
    of a random one of its nearest neighbours i'::

        min  - mean_i w_i log sum_c (S_ic T_i'c)^beta / p_c  (and with i and i' exchanged)

    with ``w_i`` the mean of ``<T_i, T_i'>`` over the heads, and ``p_c`` the running mean of T's memberships. The
    teacher head of lowest loss in the last epoch is kept.

    Where ours differs from the authors' code (github.com/HHU-MMBS/TEMI-official-BMVC2023): features are standardised
    (as by their ``--embed_norm``), so that the start suits every encoder, and reduced to 256 principal directions.
    They train 16 heads (50 in the paper) of width 512 and bottleneck 256 for 100 epochs of 50,000 rows, in batches of
    1,024 at a rate of 4e-4: hours on a CPU core. Here it is 4 heads of width 256 and bottleneck 128 in batches of 256
    for 30 epochs, at a rate of 2e-3, since the steps are fewer; ``TEMI(n_heads=16, input_dim=None, hidden_dim=512,
    bottleneck_dim=256, epochs=100, batch_size=1024, lr=4e-4)`` is theirs. Data with few rows a cluster gets fewer
    neighbours than their 50 (25 on ImageNet): a quarter of a cluster's mean size, or most pairs would be of two
    clusters.

    Parameters
    ----------
    beta : exponent, 0.5 to 1; lower makes clusters more equal in size
    n_neighbors : at most so many neighbours of each row are its positives
    input_dim : principal directions of the features that the heads see; None: as many as features
    n_heads, hidden_dim, bottleneck_dim : network
    epochs, batch_size, lr, weight_decay : AdamW's, with a linear warm-up over the first fifth
    min_steps : epochs are added until there are so many steps
    momentum : of the teacher

    >>> import numpy as np
    >>> X = np.repeat(np.eye(3), 5, axis=0)
    >>> len(set(TEMI(3, min_steps=100).fit_predict(X)))
    3
    """

    name = "temi"
    reference = "Adaloglou, Michels, Kalisch and Kollmann, BMVC 2023"

    def __init__(
        self,
        n_clusters: int = 10,
        *,
        random_state: int = 0,
        beta: float = 0.6,
        n_neighbors: int = 50,
        n_heads: int = 4,
        input_dim: int | None = 256,
        hidden_dim: int = 256,
        bottleneck_dim: int = 128,
        epochs: int = 30,
        batch_size: int = 256,
        lr: float = 2e-3,
        weight_decay: float = 1e-4,
        min_steps: int = 1500,
        momentum: float = 0.996,
        device: str = "auto",
        verbose: bool = False,
    ) -> None:
        self.n_clusters = n_clusters
        self.random_state = random_state
        self.beta = beta
        self.n_neighbors = n_neighbors
        self.n_heads = n_heads
        self.input_dim = input_dim
        self.hidden_dim = hidden_dim
        self.bottleneck_dim = bottleneck_dim
        self.epochs = epochs
        self.batch_size = batch_size
        self.lr = lr
        self.weight_decay = weight_decay
        self.min_steps = min_steps
        self.momentum = momentum
        self.device = device
        self.verbose = verbose

    def _build(self, D: int) -> nn.Module:
        p = min(self.input_dim or D, D)
        return Heads(D, p, self.n_clusters, self.n_heads, self.hidden_dim, self.bottleneck_dim)

    def _train(self, network: nn.Module, X: Tensor, seed: int) -> None:
        assert isinstance(network, Heads)
        n = len(X)
        m = min(self.n_neighbors, n - 1, max(1, n // (4 * self.n_clusters)))
        neighbours = among_themselves(F.normalize(X, dim=1), m)
        views = linear_views(X.cpu().numpy(), network.view.shape[1], seed)
        network.mean.copy_(views.mean)
        network.view.copy_(views.standard)
        teacher = Teacher(network)
        marginal = torch.full((self.n_heads, self.n_clusters), 1 / self.n_clusters, device=X.device)
        recent = torch.zeros(self.n_heads, device=X.device)  # running mean of the heads' losses

        def loss(rows: Tensor) -> Tensor:
            positive = neighbours[rows, torch.randint(m, rows.shape, device=X.device)]
            pair = torch.cat([X[rows], X[positive]])
            S = (network(pair) / TEMPERATURE).softmax(-1).chunk(2, dim=1)
            with torch.no_grad():
                T = (teacher.network(pair) / TEMPERATURE).softmax(-1)  # (h, 2 b, k)
                marginal.lerp_(T.mean(1), 1 - MARGINAL_MOMENTUM)
            losses = temi_loss((S[0], S[1]), T.chunk(2, dim=1), marginal, self.beta)
            recent.lerp_(losses.detach(), 1 / steps)
            return losses.mean()

        steps = max(1, min(math.ceil(n / self.batch_size), n // 2))
        self.history_ = train(
            network,
            loss,
            n,
            epochs=max(self.epochs, math.ceil(self.min_steps / steps)),
            batch_size=self.batch_size,
            lr=self.lr,
            weight_decay=self.weight_decay,
            optimizer=torch.optim.AdamW,
            rate=lambda done: min(1.0, 5 * done + 1e-3),
            after_step=lambda step: teacher.follow(self.momentum),
            seed=seed,
            verbose=self.verbose,
            title="temi",
        )
        network.load_state_dict(teacher.network.state_dict())
        network.head.copy_(recent.argmin())
