"""NeuNcut: a classifier trained on the normalized cut alone."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cgmcr2.objectives import cosine_topk, gaussian, normalized_cut
from cgmcr2.objectives.normalized_cut import Penalty

from .deep import MinibatchBaseline, cosine_annealing


@dataclass(kw_only=True, eq=False, repr=False)
class NeuNcut(MinibatchBaseline):
    r"""NeuNcut: a classifier trained on the relaxed normalized cut of each batch's graph.

    .. math:: \min_\Phi \; \mathrm{tr}(H'LH) + \frac{\gamma}{2} \|H'DH - I\|_F^2, \qquad
              H = \Pi\,\mathrm{diag}(\Pi'\mathrm{deg})^{-1/2}, \; \Pi = \mathrm{softmax}(f(X; \Phi))

    on centred unit rows, where A is the affinity of the features. It is the cluster module that CgMCR² builds on.

    Differences from the authors' code: they use a dense Gaussian affinity with sigma = 3 on scattering features, the
    norm penalty with gamma = 40, and 300 epochs with batches of 1,000 (``NeuNcut(affinity="gaussian", s=None,
    sigma=3.0, penalty="norm", gamma=40, max_steps=6000)``). For unit rows that affinity is nearly constant, so the
    defaults are the affinity and s = 10 of the CgMCR² paper, the squared penalty with a gamma suitable for every k, a
    learning rate of 1e-3 (theirs: 5e-3) and at most 4,000 steps (theirs: 6,000). Their volumes have 1e-6 added. They
    centre one of their data sets; without centring, most clusters of encoder features become empty.

    Parameters
    ----------
    hidden_dim, depth : int
        Width and number of the hidden layers, Linear-ReLU; the authors' 512 and 2.
    affinity : {"cosine_topk", "gaussian"}
        CgMCR²'s affinity or the authors'.
    s : int or None
        Entries of the affinity kept in each row; None keeps all, as the authors do.
    sigma : float
        Bandwidth of the Gaussian kernel.
    gamma : float
        Weight of the penalty.
    penalty : {"squared", "norm"}
        "squared" as above (the paper's), or "norm" for ``gamma |H'DH - I|_F / k`` (the released code's), whose effect
        decreases as 1/sqrt(k) for a fixed gamma.
    max_steps, batch_size, lr, weight_decay
        Maximum number of steps, batch size, learning rate and weight decay of Adam with cosine annealing.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.repeat(np.eye(3), 20, axis=0) + 0.1 * np.random.default_rng(0).random((60, 3))
    >>> NeuNcut(3, max_steps=5).fit_predict(X).shape
    (60,)
    """

    name = "neuncut"
    reference = "He, Zhang, Li, Qi, Zhang and Guo, Neural Normalized Cut, Pattern Recognition 2024"

    hidden_dim: int = 512
    depth: int = 2
    affinity: Literal["cosine_topk", "gaussian"] = "cosine_topk"
    s: int | None = 10
    sigma: float = 0.5
    gamma: float = 5.0
    penalty: Penalty = "squared"
    max_steps: int = 4000
    batch_size: int = 1000
    weight_decay: float = 1e-4

    def _build(self, D: int) -> nn.Module:
        widths = [D] + [self.hidden_dim] * self.depth
        layers: list[nn.Module] = []
        for in_width, out_width in itertools.pairwise(widths):
            linear = nn.Linear(in_width, out_width)
            nn.init.kaiming_uniform_(linear.weight)
            nn.init.zeros_(linear.bias)
            layers += [linear, nn.ReLU()]
        return nn.Sequential(Centred(D), *layers, nn.Linear(widths[-1], self.n_clusters))

    def _train(self, network: nn.Module, X: Tensor, seed: int) -> None:
        centred, classifier = network[0], network[1:]  # type: ignore[index]
        centred.mean.copy_(F.normalize(X, dim=1).mean(0))
        X = centred(X)

        def loss(rows: Tensor) -> Tensor:
            batch = X[rows]
            if self.affinity == "gaussian":
                A = gaussian(batch, self.s, self.sigma)
            else:
                A = cosine_topk(batch, self.s if self.s is not None else len(batch))
            return normalized_cut(classifier(batch).softmax(-1), A, self.gamma, penalty=self.penalty)

        self.history_ = self._run_training(
            network,
            loss,
            len(X),
            batch_size=self.batch_size,
            weight_decay=self.weight_decay,
            seed=seed,
            schedule=cosine_annealing,
        )


class Centred(nn.Module):
    """Scale to unit rows, subtract ``mean (D,)``, and rescale so that the mean square of each row is 1."""

    mean: Tensor

    def __init__(self, D: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(D))

    def forward(self, X: Tensor) -> Tensor:
        rows = F.normalize(F.normalize(X, dim=1) - self.mean, dim=1)
        return rows.mul(math.sqrt(X.shape[1]))
