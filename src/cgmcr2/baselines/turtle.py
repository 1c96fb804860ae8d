"""TURTLE: search for the labelling that linear classifiers fit best, by bilevel optimisation."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cgmcr2._optim import Adam
from cgmcr2._progress import progress_bar

from .deep import WINDOW, DeepBaseline, cosine_annealing, has_converged, window_means
from .scan import entropy


def fit_loss(logits: list[Tensor], labels: Tensor) -> Tensor:
    """Cross-entropy of the classifiers' logits with the labelling, summed over the feature spaces.

    ``logits`` are (b, k) for each space; ``labels (b, k)`` has rows that sum to 1.

    >>> float(fit_loss([torch.zeros(3, 2)], torch.full((3, 2), 0.5))) == float(torch.tensor(2.0).log())
    True
    """
    return torch.stack([F.cross_entropy(s, labels) for s in logits]).sum()


def turtle_loss(logits: list[Tensor], memberships: list[Tensor], gamma: float) -> Tensor:
    """TURTLE's loss ``fit_loss(logits, mean_s P_s) - gamma sum_s H(mean_i P_s_i)``.

    ``logits`` of the classifiers, without gradient, and ``memberships`` P are (b, k) for each feature space s. The
    entropy H prevents the trivial labelling with a single label.
    """
    labels = torch.stack(memberships).mean(0)
    return fit_loss(logits, labels) - gamma * torch.stack([entropy(P) for P in memberships]).sum()


class LinearSpaces(nn.Module):
    """One linear map to k logits per feature space; the columns of ``X (n, D)`` are the concatenated spaces.

    The rows of space s are scaled to length sqrt(D_s) / 2, which is close to the length of CLIP's features, so that the
    initial logits are small. ``forward`` returns the mean memberships (n, k).
    """

    def __init__(self, widths: list[int], k: int, weight_norm: bool) -> None:
        super().__init__()
        self.widths = widths
        maps = [nn.Linear(D, k) for D in widths]
        self.maps = nn.ModuleList(nn.utils.parametrizations.weight_norm(m) if weight_norm else m for m in maps)

    def split(self, X: Tensor) -> list[Tensor]:
        """Return the scaled rows (n, D_s) of each space."""
        return [F.normalize(part, dim=1) * (part.shape[1] ** 0.5 / 2) for part in torch.split(X, self.widths, dim=1)]

    def logits(self, spaces: list[Tensor]) -> list[Tensor]:
        """Return the logits (n, k) of each space."""
        return [linear(part) for linear, part in zip(self.maps, spaces, strict=True)]

    @torch.no_grad()
    def set_fit_gradients(self, spaces: list[Tensor], labels: Tensor) -> None:
        """Set the gradients of ``fit_loss(self.logits(spaces), labels)``, in half the time of ``backward``.

        For maps without weight normalisation and labels (n, k) whose rows sum to 1.
        """
        for linear, part, logits in zip(self.maps, spaces, self.logits(spaces), strict=True):
            residual = (logits.softmax(1) - labels) / len(labels)  # (n, k), the gradient of the logits
            linear.weight.grad, linear.bias.grad = residual.T @ part, residual.sum(0)

    def adam(self, lr: float) -> torch.optim.Adam:
        """Create Adam with learning rates proportional to 1 / D_s, so that a step changes all logits equally."""
        spaces = zip(self.maps, self.widths, strict=True)
        return Adam([{"params": m.parameters(), "lr": lr * 1024 / D} for m, D in spaces])

    def forward(self, X: Tensor) -> Tensor:
        return torch.stack([s.softmax(1) for s in self.logits(self.split(X))]).mean(0)


@dataclass(kw_only=True, eq=False, repr=False)
class TURTLE(DeepBaseline):
    """TURTLE: the labelling that linear classifiers fit best in one or several feature spaces.

    ::

        min_T  sum_s mean_i CE(P_i, W_s x_si) - gamma sum_s H(mean_i softmax(T_s x_si))

    where x_si is row i in feature space s, ``P_i = mean_s softmax(T_s x_si)`` its label, given by a linear map T_s per
    space, CE the cross-entropy, H the entropy, and W_s the classifier of space s after M steps of Adam on its CE.
    Gradient descent on a cross-entropy converges to the classifier of largest margin, so the labelling has a large
    margin. The gradient with respect to T treats W as constant (first order), as in the authors' code.

    Several spaces are passed as concatenated columns of ``X (n, D)``; ``widths`` are their numbers of columns.

    Differences from the authors' code (github.com/mlbio-epfl/turtle): rows of each space are scaled to length sqrt(D) /
    2 (theirs: unchanged); Adam's learning rate equals theirs, 1e-3, at D = 1024 and is inversely proportional to D, so
    that a step changes the logits equally for every encoder; the learning rate of the labelling falls to zero by cosine
    annealing over 2,000 steps (theirs: constant, 6,000 steps; with a constant rate, ACC on AID falls from 93.0 after
    2,000 steps to 91.3 after 4,400); and, to be practical on a CPU, batches have 2,048 rows instead of 10,000. As in
    their code, the classifiers restart in every iteration; with ``warm_start``, AID drops from 0.93 to 0.85. Their
    results use two spaces of large models (CLIP ViT-L/14 and DINOv2); one space gives lower accuracy.

    Parameters
    ----------
    widths : sequence of int, optional
        Number of columns of each space in X; None for a single space.
    gamma : float
        Weight of the entropy.
    max_steps : int
        Number of updates of the labelling.
    tolerance : float or None
        Training stops when the loss improves by less than this fraction of its total decrease, see ``has_converged``;
        None trains until the learning rate is zero.
    inner_steps : int
        Number M of updates of the classifiers before each update of the labelling.
    lr, inner_lr : float
        Learning rates of Adam at D = 1024, for the labelling (at the start) and for the classifiers.
    batch_size : int
        Rows per iteration.
    warm_start : bool
        Continue the classifiers from the previous iteration instead of restarting them.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.repeat(np.eye(3), 5, axis=0)
    >>> len(set(TURTLE(3, max_steps=60).fit_predict(X)))
    3
    """

    name = "turtle"
    reference = "Gadetsky, Jiang and Brbić, ICML 2024"

    widths: tuple[int, ...] | list[int] | None = None
    gamma: float = 10.0
    max_steps: int = 2000
    tolerance: float | None = None
    inner_steps: int = 10
    lr: float = 1e-3
    inner_lr: float = 1e-3
    batch_size: int = 2048
    warm_start: bool = False

    def _build(self, D: int) -> nn.Module:
        return LinearSpaces(self._widths(D), self.n_clusters, weight_norm=True)

    def _train(self, network: nn.Module, X: Tensor, seed: int) -> None:
        assert isinstance(network, LinearSpaces)
        outer = network.adam(self.lr)
        rates = [group["lr"] for group in outer.param_groups]
        losses: list[float] = []
        with progress_bar(self.max_steps, desc=self.name, unit="steps", enabled=self.verbose) as bar:
            for step in range(self.max_steps):
                batch = X if len(X) <= self.batch_size else X[torch.randperm(len(X))[: self.batch_size].to(X.device)]
                spaces = network.split(batch)
                memberships = [s.softmax(1) for s in network.logits(spaces)]
                if step == 0 or not self.warm_start:
                    classifiers = LinearSpaces(network.widths, self.n_clusters, weight_norm=False).to(X.device)
                    inner = classifiers.adam(self.inner_lr)
                labels = torch.stack(memberships).mean(0).detach()
                for _ in range(self.inner_steps):
                    classifiers.set_fit_gradients(spaces, labels)
                    inner.step()
                with torch.no_grad():
                    logits = classifiers.logits(spaces)
                for group, lr in zip(outer.param_groups, rates, strict=True):
                    group["lr"] = lr * cosine_annealing(step / self.max_steps)
                outer.zero_grad(set_to_none=True)
                loss = turtle_loss(logits, memberships, self.gamma)
                loss.backward()  # type: ignore[no-untyped-call]
                outer.step()
                losses.append(loss.item())
                bar.update()
                if len(losses) % WINDOW == 0 and has_converged(window_means(losses), self.tolerance):
                    break
        self.history_ = window_means(losses)

    def _widths(self, D: int) -> list[int]:
        widths = [D] if self.widths is None else [int(width) for width in self.widths]
        if min(widths, default=0) < 1 or sum(widths) != D:
            raise ValueError(
                f"widths is {widths}, but X has {D} columns; pass widths that sum to {D}, or None for a single space."
            )
        return widths
