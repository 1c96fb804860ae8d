"""Base classes and training loop of the deep baselines."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from cgmcr2._device import choose_device
from cgmcr2._optim import Adam
from cgmcr2._progress import progress_bar
from cgmcr2._random import mix, seeded
from cgmcr2.graphs.knn import top_similar
from cgmcr2.training.batches import Batches, steps_per_epoch

from .base import Arrays, Baseline, Float32, Int64

PREDICT_ROWS = 4096  # rows per prediction batch
WINDOW = 100  # steps per value of the loss history
PATIENCE = 5  # values of the history compared with the same number before them; 500 steps average out the batches


@dataclass(kw_only=True, eq=False, repr=False)
class DeepBaseline(Baseline):
    """Base class of the deep baselines. Subclasses implement

    - ``_build(D) -> network``: the untrained network for features of width D; depends on parameters only;
    - ``_train(network, X, seed)``: train it in place on ``X (n, D)``, a float32 tensor on the chosen device;
    - ``_logits(network, X) -> (n, k)``, if ``network(X)`` does not return the cluster logits.

    ``_build`` and ``_train`` run under a seeded global generator.

    Parameters
    ----------
    device : str
        "auto" or a torch device string.

    Attributes
    ----------
    network_ : nn.Module
        The trained network.
    """

    device: str = "auto"

    def _build(self, D: int) -> nn.Module:
        raise NotImplementedError

    def _train(self, network: nn.Module, X: Tensor, seed: int) -> None:
        raise NotImplementedError

    def _logits(self, network: nn.Module, X: Tensor) -> Tensor:
        logits: Tensor = network(X)
        return logits

    def _fit(self, X: Float32, seed: int) -> Int64:
        self._fit_network(X, seed)
        return self._predict(X)

    def _fit_network(self, X: Float32, seed: int) -> None:
        device = choose_device(self.device)
        with seeded(mix(seed, 1), device):
            self.network_ = self._build(X.shape[1]).to(device)
            self._train(self.network_.train(), torch.from_numpy(np.require(X, requirements="W")).to(device), seed)
        self.network_.eval()

    def _predict(self, X: Float32) -> Int64:
        return apply_in_batches(lambda batch: self._logits(self.network_, batch).argmax(-1), self.network_, X).numpy()

    def _state(self) -> Arrays:
        return {name: tensor.detach().cpu().numpy() for name, tensor in self.network_.state_dict().items()}

    def _restore(self, arrays: Arrays) -> None:
        self.network_ = self._build(self.n_features_in_)
        self.network_.load_state_dict({name: torch.from_numpy(array) for name, array in arrays.items()})
        self.network_.to(choose_device(self.device)).eval()


@dataclass(kw_only=True, eq=False, repr=False)
class MinibatchBaseline(DeepBaseline):
    """Base class of the deep baselines that are trained on minibatches until their loss no longer improves.

    The number of steps does not depend on the number of rows: small data is visited more often.

    Parameters
    ----------
    lr : float
        Learning rate.
    max_steps : int
        Maximum number of steps.
    tolerance : float or None
        Training stops when the loss improves by less than this fraction of its total decrease, see ``has_converged``;
        None trains for ``max_steps``.

    Attributes
    ----------
    history_ : list of float
        Mean loss of each 100 steps.
    """

    lr: float = 1e-3
    max_steps: int = 1000
    tolerance: float | None = 1e-3

    def _run_training(
        self, network: nn.Module, loss: Callable[[Tensor], Tensor], n: int, **options: Any
    ) -> list[float]:
        """Call ``train`` with the given ``TrainingOptions``; the defaults are this estimator's parameters."""
        names = ("lr", "max_steps", "tolerance", "verbose")
        defaults = {"desc": self.name, **{name: getattr(self, name) for name in names}}
        return train(network, loss, n, TrainingOptions(**{**defaults, **options}))


@dataclass(frozen=True, kw_only=True)
class TrainingOptions:
    """Options of ``train``.

    Parameters
    ----------
    max_steps : int
        Maximum number of steps; 0 skips training.
    batch_size : int
        Maximum batch size; see ``steps_per_epoch``.
    lr : float
        Learning rate.
    tolerance : float or None
        See ``has_converged``; None trains for ``max_steps``.
    weight_decay : float
        Weight decay of the optimiser.
    seed : int
        Random seed of the batches.
    make_optimizer : callable
        Creates the optimiser from parameters, ``lr`` and ``weight_decay``.
    schedule : callable, optional
        Learning-rate multiplier as a function of progress in [0, 1).
    after_step : callable, optional
        Called after each step, for example to update a teacher.
    verbose : bool
        Show a progress bar.
    desc : str
        Name of the training run in the progress bar and in error messages.
    """

    max_steps: int
    batch_size: int
    lr: float
    tolerance: float | None = 1e-3
    weight_decay: float = 0.0
    seed: int = 0
    make_optimizer: Callable[..., torch.optim.Optimizer] = Adam
    schedule: Callable[[float], float] | None = None
    after_step: Callable[[], None] | None = None
    verbose: bool = False
    desc: str = "training"


def train(network: nn.Module, loss: Callable[[Tensor], Tensor], n: int, options: TrainingOptions) -> list[float]:
    """Minimise a loss over the parameters of ``network`` that require a gradient.

    Parameters
    ----------
    network : nn.Module
        Network to train, in place.
    loss : callable
        Loss of a batch, given the indices (b,) of its rows on the network's device.
    n : int
        Number of rows. Each epoch visits them once in random order.
    options : TrainingOptions
        Length of the training run, optimiser and learning rate.

    Returns
    -------
    history : list of float
        Mean loss of each ``WINDOW`` steps.
    """
    parameters = [p for p in network.parameters() if p.requires_grad]
    device = parameters[0].device
    batches = Batches(n, steps_per_epoch(n, options.batch_size), mix(options.seed, 0))
    optimizer = options.make_optimizer(parameters, lr=options.lr, weight_decay=options.weight_decay)
    losses: list[float] = []
    with progress_bar(options.max_steps, desc=options.desc, unit="steps", enabled=options.verbose) as bar:
        for step in range(options.max_steps):
            if options.schedule is not None:
                for group in optimizer.param_groups:
                    group["lr"] = options.lr * options.schedule(step / options.max_steps)
            value = loss(torch.from_numpy(batches.rows(step)).to(device))
            if not torch.isfinite(value):
                raise FloatingPointError(
                    f"{options.desc} diverged at step {step} (loss {value.item()}); lower lr, or scale the features to "
                    "unit length."
                )
            optimizer.zero_grad(set_to_none=True)
            value.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            if options.after_step is not None:
                options.after_step()
            losses.append(value.item())
            bar.update()
            if len(losses) % WINDOW == 0:
                history = window_means(losses)
                bar.set_postfix(loss=f"{history[-1]:.4g}")
                if has_converged(history, options.tolerance):
                    break
    return window_means(losses)


def window_means(losses: Sequence[float]) -> list[float]:
    """Mean of each ``WINDOW`` consecutive losses; the last window may be shorter."""
    return [
        sum(part) / len(part) for start in range(0, len(losses), WINDOW) if (part := losses[start : start + WINDOW])
    ]


def has_converged(history: Sequence[float], tolerance: float | None, patience: int = PATIENCE) -> bool:
    """Whether the loss no longer improves.

    The mean of the last ``patience`` values is compared with the mean of the ``patience`` values before them. Training
    has converged if the difference is less than ``tolerance`` times the total decrease.
    With ``tolerance=None``, the answer is always no.

    >>> has_converged([5, 4, 3, 2, 1, 0], 1e-3, patience=2)
    False
    >>> has_converged([5, 1, 0, 0, 0, 0], 1e-3, patience=2)
    True
    """
    if tolerance is None or len(history) < 2 * patience:
        return False
    before, last = (sum(part) / patience for part in (history[-2 * patience : -patience], history[-patience:]))
    return before - last < tolerance * (history[0] - last)


def cosine_annealing(progress: float) -> float:
    """Learning-rate multiplier of cosine annealing, from 1 at progress 0 to 0 at progress 1.

    >>> [round(cosine_annealing(t), 3) for t in (0.0, 0.5, 1.0)]
    [1.0, 0.5, 0.0]
    """
    return 0.5 * (1 + math.cos(math.pi * progress))


class NeighbourSampler:
    """Sample positives: one of the ``m`` nearest neighbours of each row of ``X (n, D)``, which has unit rows.

    >>> X = nn.functional.normalize(torch.tensor([[1.0, 0.0], [1.0, 0.1], [0.0, 1.0], [0.1, 1.0]]), dim=1)
    >>> NeighbourSampler(X, 1)(torch.tensor([0, 3]))
    tensor([1, 2])
    """

    def __init__(self, X: Tensor, m: int) -> None:
        self.neighbours = top_similar(X, m, sort=True)[1]  # (n, m)

    def __call__(self, rows: Tensor) -> Tensor:
        """Return one neighbour of each of ``rows (b,)``."""
        choice = torch.randint(self.neighbours.shape[1], rows.shape, device=self.neighbours.device)
        return self.neighbours[rows, choice]


def n_positives(n: int, n_clusters: int, n_neighbors: int) -> int:
    """``n_neighbors``, capped at a quarter of the mean cluster size, since more neighbours cross clusters.

    >>> n_positives(6000, 10, 50), n_positives(1020, 102, 50)
    (50, 2)
    """
    return min(n_neighbors, n - 1, max(1, n // (4 * n_clusters)))


def ema_teacher(student: nn.Module, momentum: float) -> AveragedModel:
    """EMA copy of ``student``; buffers are copied, not averaged.

    Each ``teacher.update_parameters(student)`` sets ``teacher = momentum teacher + (1 - momentum) student``.

    >>> student = nn.Linear(1, 1, bias=False)
    >>> teacher = ema_teacher(student, momentum=0.75)
    >>> start = student.weight.item()
    >>> _ = nn.init.constant_(student.weight, start + 1)
    >>> teacher.update_parameters(student)
    >>> round(teacher.module.weight.item() - start, 4)
    0.25
    """
    average = get_ema_multi_avg_fn(momentum)  # type: ignore[no-untyped-call]
    teacher = AveragedModel(student, multi_avg_fn=average).requires_grad_(False)
    teacher.update_parameters(student)  # AveragedModel's first update copies the student, all later ones average
    return teacher


@torch.inference_mode()
def apply_in_batches(
    function: Callable[[Tensor], Tensor], network: nn.Module, X: Float32 | Tensor, batch_size: int = PREDICT_ROWS
) -> Tensor:
    """Apply ``function`` to batches of rows of ``X (n, D)`` on the network's device; return the result on the CPU."""
    device = next(network.parameters()).device
    X = torch.from_numpy(np.require(X, requirements="W")) if isinstance(X, np.ndarray) else X
    return torch.cat([function(X[i : i + batch_size].to(device)).cpu() for i in range(0, len(X), batch_size)])
