"""TURTLE: the labelling that linear classifiers find easiest, searched for by bilevel optimisation."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from tqdm import tqdm

from .deep import DeepBaseline
from .scan import entropy


def fit_loss(scores: list[Tensor], labels: Tensor) -> Tensor:
    """``sum_s mean_i CE(labels_i, softmax(scores_s_i))``: how badly the classifier of each space fits the labelling.

    ``scores``: (b, k) of each space; ``labels (b, k)`` rows sum to 1.

    >>> float(fit_loss([torch.zeros(3, 2)], torch.full((3, 2), 0.5))) == float(torch.tensor(2.0).log())
    True
    """
    return torch.stack([F.cross_entropy(s, labels) for s in scores]).sum()


def turtle_loss(scores: list[Tensor], memberships: list[Tensor], gamma: float) -> Tensor:
    """``fit_loss - gamma sum_s H(mean_i P_s_i)`` for the labelling that is the mean of the spaces' ``memberships``.

    ``scores``: (b, k) of each space, fixed; ``memberships`` P: (b, k) of each space. The entropy keeps the labelling
    from being the one label that any classifier fits.
    """
    labels = torch.stack(memberships).mean(0)
    return fit_loss(scores, labels) - gamma * torch.stack([entropy(P) for P in memberships]).sum()


class LinearSpaces(nn.Module):
    """``X (n, D)`` -> (n, k) for each of the spaces side by side in X: a linear map of its rows, scaled to one length.

    The length is sqrt(D_s) / 2, near that of CLIP's own features: the scores of an untrained map are then small.
    """

    def __init__(self, widths: list[int], k: int, weight_norm: bool) -> None:
        super().__init__()
        self.widths = widths
        maps = [nn.Linear(D, k) for D in widths]
        self.maps = nn.ModuleList(nn.utils.parametrizations.weight_norm(m) if weight_norm else m for m in maps)

    def rows(self, X: Tensor) -> list[Tensor]:
        return [F.normalize(part, dim=1) * (part.shape[1] ** 0.5 / 2) for part in torch.split(X, self.widths, dim=1)]

    def scores(self, rows: list[Tensor]) -> list[Tensor]:
        return [linear(part) for linear, part in zip(self.maps, rows, strict=True)]

    def adam(self, lr: float) -> torch.optim.Adam:
        """Adam that moves scores equally far in each space: its step in a weight is the same for few and many."""
        spaces = zip(self.maps, self.widths, strict=True)
        return torch.optim.Adam([{"params": m.parameters(), "lr": lr * 1024 / D} for m, D in spaces])

    def forward(self, X: Tensor) -> Tensor:
        return torch.stack([s.softmax(1) for s in self.scores(self.rows(X))]).mean(0)


class TURTLE(DeepBaseline):
    """TURTLE: the labelling whose linear classifiers fit best in one or several feature spaces at once.

    With the labelling ``P = mean_s softmax(T_s x_s)`` made by one linear map T_s of each space::

        min_T  sum_s CE(P, W_s* x_s) - gamma sum_s H(mean_i softmax(T_s x_si)),   W_s* = M steps of gradient descent on
                                                                                  CE(P, W_s x_s) from the last W_s

    Gradient descent on a cross-entropy tends to the classifier of largest margin, so the labelling that is reached is
    one that separates with a large margin. The gradient with respect to T holds W* fixed (first order), as the
    authors' does.

    Several spaces are given side by side in ``X (n, D)``, and ``widths`` says how many columns each has.

    Where ours differs from the authors' code (github.com/mlbio-epfl/turtle): rows of each space are scaled to length
    sqrt(D) / 2 in place of the features' own lengths, and Adam's rate is theirs, 1e-3, at D = 1024 and inversely
    proportional to D, so that a step moves a score as far whatever the encoder; the classifiers
    go on from where they were (``warm_start``; the paper has both, the code restarts them unless told); and for a CPU
    core there are 1,000 outer iterations on 2,048 rows in place of 6,000 on 10,000. Their results are with two
    spaces of large models (CLIP ViT-L/14 and DINOv2); on one space expect less.

    Parameters
    ----------
    widths : columns of each space in X, in order; None: one space
    gamma : weight of the entropy
    iterations : T, updates of the labelling
    inner_steps : M, updates of the classifiers before each
    lr, inner_lr : learning rates of Adam at D = 1024, for the labelling and for the classifiers
    batch_size : rows of an iteration
    warm_start : classifiers go on from the last iteration, or start anew

    >>> import numpy as np
    >>> X = np.repeat(np.eye(3), 5, axis=0)
    >>> len(set(TURTLE(3, iterations=60).fit_predict(X)))
    3
    """

    name = "turtle"
    reference = "Gadetsky, Jiang and Brbić, ICML 2024"

    def __init__(
        self,
        n_clusters: int = 10,
        *,
        random_state: int = 0,
        widths: tuple[int, ...] | list[int] | None = None,
        gamma: float = 10.0,
        iterations: int = 1000,
        inner_steps: int = 10,
        lr: float = 1e-3,
        inner_lr: float = 1e-3,
        batch_size: int = 2048,
        warm_start: bool = True,
        device: str = "auto",
        verbose: bool = False,
    ) -> None:
        self.n_clusters = n_clusters
        self.random_state = random_state
        self.widths = widths
        self.gamma = gamma
        self.iterations = iterations
        self.inner_steps = inner_steps
        self.lr = lr
        self.inner_lr = inner_lr
        self.batch_size = batch_size
        self.warm_start = warm_start
        self.device = device
        self.verbose = verbose

    def _build(self, D: int) -> nn.Module:
        return LinearSpaces(self._widths(D), self.n_clusters, weight_norm=True)

    def _train(self, network: nn.Module, X: Tensor, seed: int) -> None:
        assert isinstance(network, LinearSpaces)
        outer = network.adam(self.lr)
        for i in tqdm(range(self.iterations), desc="turtle", unit="step", disable=not self.verbose, leave=False):
            batch = X if len(X) <= self.batch_size else X[torch.randperm(len(X))[: self.batch_size].to(X.device)]
            rows = network.rows(batch)
            memberships = [s.softmax(1) for s in network.scores(rows)]
            if i == 0 or not self.warm_start:
                classifiers = LinearSpaces(network.widths, self.n_clusters, weight_norm=False).to(X.device)
                inner = classifiers.adam(self.inner_lr)
            labels = torch.stack(memberships).mean(0).detach()
            for _ in range(self.inner_steps):
                inner.zero_grad(set_to_none=True)
                fit_loss(classifiers.scores(rows), labels).backward()  # type: ignore[no-untyped-call]
                inner.step()
            with torch.no_grad():
                scores = classifiers.scores(rows)
            outer.zero_grad(set_to_none=True)
            turtle_loss(scores, memberships, self.gamma).backward()  # type: ignore[no-untyped-call]
            outer.step()

    def _widths(self, D: int) -> list[int]:
        widths = [D] if self.widths is None else [int(width) for width in self.widths]
        if min(widths, default=0) < 1 or sum(widths) != D:
            raise ValueError(
                f"widths is {widths}, but X has {D} columns; give the columns of each space, {D} in all, or None."
            )
        return widths
