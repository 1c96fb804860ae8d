"""TEMI: self-distillation of cluster heads by the pointwise mutual information of neighbours."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cgmcr2._optim import AdamW
from cgmcr2.consensus.views import linear_views
from cgmcr2.model.network import StackedLinear

from .deep import WINDOW, MinibatchBaseline, NeighbourSampler, ema_teacher, n_positives

TEMPERATURE = 0.1  # softmax temperature of student and teacher
MARGINAL_MOMENTUM = 0.9  # momentum of the running mean of the cluster sizes
TINY = torch.finfo(torch.float32).tiny  # lower bound of S T, because the gradient of (S T)^beta is infinite at 0


def pointwise_mutual_information(S: Tensor, T: Tensor, marginal: Tensor, beta: float) -> Tensor:
    """``log sum_c (S_ic T_ic)^beta / p_c`` for each pair i; beta < 1 discourages large clusters.

    ``S, T (..., b, k)`` are the memberships of the two rows of each pair, and ``marginal (..., k)`` are the relative
    cluster sizes p; returns (..., b).

    >>> P = torch.eye(2)
    >>> pointwise_mutual_information(P, P, torch.full((2,), 0.5), beta=0.6).exp().tolist()
    [2.0, 2.0]
    """
    product = (S * T).clamp_min(TINY)
    return (product**beta / marginal.unsqueeze(-2)).sum(-1).log()


def temi_loss(S: tuple[Tensor, Tensor], T: tuple[Tensor, Tensor], marginal: Tensor, beta: float) -> Tensor:
    """TEMI's loss ``- mean_i w_i (pmi(S_i, T'_i) + pmi(S'_i, T_i)) / 2``, one value per head (h,).

    ``S`` and ``T`` are pairs of memberships (h, b, k) by the student and by the teacher: of the rows, and (primed) of
    one neighbour of each. The weight ``w_i = mean_h <T_hi, T'_hi>`` is low for pairs that the heads assign to different
    clusters.
    """
    weight = (T[0] * T[1]).sum(-1).mean(0)  # (b,)
    forward, backward = (pointwise_mutual_information(s, t, marginal, beta) for s, t in ((S[0], T[1]), (S[1], T[0])))
    return -(weight * (forward + backward) / 2).mean(-1)


class BottleneckHeads(nn.Module):
    """Heads Linear-GELU-Linear with unit rows, multiplied by k learned directions.

    Maps ``X (n, D)`` to logits (h, n, k) of h heads; in evaluation mode to the logits (n, k) of the selected ``head``.
    The input is first scaled to unit rows, centred by ``mean (D,)`` and projected by ``projection (D, p)``.
    """

    mean: Tensor
    projection: Tensor
    head: Tensor

    def __init__(self, D: int, p: int, k: int, heads: int, hidden: int, bottleneck: int) -> None:
        super().__init__()
        self.heads = heads
        self.first = nn.Linear(p, heads * hidden)  # first layers of all heads
        self.second = StackedLinear(heads, hidden, bottleneck)
        for weight, bias in ((self.first.weight, self.first.bias), (self.second.weight, self.second.bias)):
            nn.init.trunc_normal_(weight, std=0.02)
            nn.init.zeros_(bias)
        bound = 1 / math.sqrt(bottleneck)
        self.direction = nn.Parameter(torch.empty(heads, bottleneck, k).uniform_(-bound, bound))
        self.length = nn.Parameter(torch.ones(heads, 1, k))
        self.register_buffer("mean", torch.zeros(D))
        self.register_buffer("projection", torch.eye(D, p))
        self.register_buffer("head", torch.tensor(0))

    def forward(self, X: Tensor) -> Tensor:
        logits = self.logits(self.project(X))
        return logits if self.training else logits[int(self.head)]

    def project(self, X: Tensor) -> Tensor:
        """Return the input (n, p) of the heads."""
        return (F.normalize(X, dim=1) - self.mean) @ self.projection

    def logits(self, X: Tensor) -> Tensor:
        """Return the logits (h, n, k) of all heads for projected rows ``X (n, p)``."""
        H = F.gelu(self.first(X)).view(len(X), self.heads, -1).transpose(0, 1)
        H = F.normalize(self.second(H), dim=-1)  # (h, n, bottleneck)
        logits: Tensor = H @ (F.normalize(self.direction, dim=1) * self.length)
        return logits


@dataclass(kw_only=True, eq=False, repr=False)
class TEMI(MinibatchBaseline):
    """TEMI: self-distillation of cluster heads by the pointwise mutual information of neighbours, on fixed features.

    ::

        min  - mean_i w_i log sum_c (S_ic T_i'c)^beta / p_c  (symmetrised in i and i')

    where S are the memberships by the student heads, T those by the teacher heads (exponential moving averages of the
    students), i' is a random nearest neighbour of row i, ``w_i`` is the mean of ``<T_i, T_i'>`` over the heads, and
    ``p_c`` is the running mean of T. The teacher head of lowest loss over about the last 100
    steps is kept.

    Differences from the authors' code (github.com/HHU-MMBS/TEMI-official-BMVC2023): features are standardised (their
    option ``--embed_norm``), so that the initialisation suits every encoder, and reduced to 256 principal components.
    They train 16 heads (50 in the paper) of width 512 and bottleneck 256 for 100 epochs on 50,000 rows with batches of
    1,024 and a learning rate of 4e-4, which takes hours on a CPU. The defaults are 4 heads of width 256 and bottleneck
    128 and at most 12,000 steps with batches of 256, at a learning rate of 2e-3; ``TEMI(n_heads=16, input_dim=None,
    hidden_dim=512, bottleneck_dim=256, max_steps=4900, batch_size=1024, lr=4e-4, warmup_steps=980)`` is theirs. The
    number of neighbours (theirs: 50, and 25 on ImageNet) is capped at a quarter of the mean cluster size, since more
    neighbours cross clusters.

    Parameters
    ----------
    beta : float
        Exponent, 0.5 to 1; lower values make cluster sizes more equal.
    n_neighbors : int
        Maximum number of neighbours of a row used as positives.
    input_dim : int or None
        Number of principal components of the features; None uses all.
    n_heads, hidden_dim, bottleneck_dim : int
        Number of heads and their widths.
    max_steps, batch_size, lr, weight_decay
        Maximum number of steps, batch size, learning rate and weight decay of AdamW.
    warmup_steps : int
        Steps over which the learning rate rises linearly.
    momentum : float
        Momentum of the teacher.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.repeat(np.eye(3), 5, axis=0)
    >>> len(set(TEMI(3, max_steps=200, warmup_steps=20).fit_predict(X)))
    3
    """

    name = "temi"
    reference = "Adaloglou, Michels, Kalisch and Kollmann, BMVC 2023"

    beta: float = 0.6
    n_neighbors: int = 50
    n_heads: int = 4
    input_dim: int | None = 256
    hidden_dim: int = 256
    bottleneck_dim: int = 128
    max_steps: int = 12_000
    batch_size: int = 256
    lr: float = 2e-3
    weight_decay: float = 1e-4
    warmup_steps: int = 500
    momentum: float = 0.996

    def _build(self, D: int) -> nn.Module:
        p = min(self.input_dim or D, D)
        return BottleneckHeads(D, p, self.n_clusters, self.n_heads, self.hidden_dim, self.bottleneck_dim)

    def _train(self, network: nn.Module, X: Tensor, seed: int) -> None:
        assert isinstance(network, BottleneckHeads)
        n = len(X)
        m = n_positives(n, self.n_clusters, self.n_neighbors)
        positives = NeighbourSampler(F.normalize(X, dim=1), m)
        views = linear_views(X.cpu().numpy(), network.projection.shape[1], seed)
        network.mean.copy_(views.mean)
        network.projection.copy_(views.standard)
        X = network.project(X)  # once, not in every step
        teacher = ema_teacher(network, self.momentum)
        averaged = teacher.module
        assert isinstance(averaged, BottleneckHeads)
        marginal = torch.full((self.n_heads, self.n_clusters), 1 / self.n_clusters, device=X.device)
        running_losses = torch.zeros(self.n_heads, device=X.device)

        def loss(rows: Tensor) -> Tensor:
            pairs = torch.cat([X[rows], X[positives(rows)]])
            S = (network.logits(pairs) / TEMPERATURE).softmax(-1).chunk(2, dim=1)
            with torch.no_grad():
                T = (averaged.logits(pairs) / TEMPERATURE).softmax(-1)  # (h, 2 b, k)
                marginal.lerp_(T.mean(1), 1 - MARGINAL_MOMENTUM)
            rows_T, neighbours_T = T.chunk(2, dim=1)
            losses = temi_loss((S[0], S[1]), (rows_T, neighbours_T), marginal, self.beta)
            running_losses.lerp_(losses.detach(), 1 / WINDOW)
            return losses.mean()

        self.history_ = self._run_training(
            network,
            loss,
            n,
            batch_size=self.batch_size,
            weight_decay=self.weight_decay,
            make_optimizer=AdamW,
            schedule=lambda progress: min(1.0, (progress * self.max_steps + 1) / (self.warmup_steps + 1)),
            after_step=lambda: teacher.update_parameters(network),
            seed=seed,
        )
        network.load_state_dict(teacher.module.state_dict())
        network.head.copy_(running_losses.argmin())
