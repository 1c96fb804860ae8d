"""What the methods that train a network share: a seed, a loop, a teacher, and prediction by the largest score."""

from __future__ import annotations

import contextlib
import copy
import math
from collections.abc import Callable, Iterator

import numpy as np
import torch
from torch import Tensor, nn
from tqdm import tqdm

from cgmcr2._device import choose_device
from cgmcr2._random import mix
from cgmcr2.training.batches import Batches

from .base import Arrays, Baseline, Float32, Int64

PREDICT_ROWS = 4096  # rows in one block of a prediction


class DeepBaseline(Baseline):
    """A baseline that is a torch module. A method writes two functions:

    - ``_build(D) -> module``: an untrained network for rows of width D; it depends on settings alone;
    - ``_train(network, X, seed)``: train it in place on ``X (n, D)``, a float32 tensor on ``self``'s device. torch's
      global generator is seeded around both, so layers and noise drawn from it repeat.

    and where ``network(X)`` is not the (n, k) scores, ``_scores(network, X)``.
    """

    network_: nn.Module
    device: str = "auto"

    def _build(self, D: int) -> nn.Module:
        raise NotImplementedError

    def _train(self, network: nn.Module, X: Tensor, seed: int) -> None:
        raise NotImplementedError

    def _scores(self, network: nn.Module, X: Tensor) -> Tensor:
        scores: Tensor = network(X)
        return scores

    def _fit(self, X: Float32, seed: int) -> Int64:
        self._learn(X, seed)
        return self._predict(X)

    def _learn(self, X: Float32, seed: int) -> None:
        device = choose_device(self.device)
        with seeded(seed):
            self.network_ = self._build(X.shape[1]).to(device)
            self._train(self.network_.train(), torch.from_numpy(np.require(X, requirements="W")).to(device), seed)
        self.network_.eval()

    def _predict(self, X: Float32) -> Int64:
        return in_blocks(lambda block: self._scores(self.network_, block).argmax(-1), self.network_, X).numpy()

    def _state(self) -> Arrays:
        return {name: tensor.detach().cpu().numpy() for name, tensor in self.network_.state_dict().items()}

    def _restore(self, arrays: Arrays) -> None:
        self.network_ = self._build(self.n_features_in_)
        self.network_.load_state_dict({name: torch.from_numpy(array) for name, array in arrays.items()})
        self.network_.to(choose_device(self.device)).eval()


def train(
    network: nn.Module,
    loss: Callable[[Tensor], Tensor],
    n: int,
    *,
    epochs: int,
    batch_size: int,
    lr: float,
    min_steps: int = 0,
    weight_decay: float = 0.0,
    seed: int = 0,
    optimizer: Callable[..., torch.optim.Optimizer] = torch.optim.Adam,
    rate: Callable[[float], float] | None = None,
    after_step: Callable[[int], None] | None = None,
    clip: float | None = None,
    verbose: bool = False,
    title: str = "",
) -> list[float]:
    """Minimise ``loss(rows)`` over the parameters of ``network`` that require a gradient; the mean loss of each epoch.

    An epoch is a random order of the n rows in nearly equal batches of at most ``batch_size`` and, where n allows it,
    at least two rows, so that BatchNorm always has something to average. Few rows make few steps: epochs are added
    until there are ``min_steps``. ``rows (b,)`` is a tensor of indices on the network's device. ``rate(part done)``
    scales the learning rate; ``after_step(step)`` may move a teacher. A loss that is not finite ends the training with
    an error that says so.
    """
    parameters = [p for p in network.parameters() if p.requires_grad]
    device = parameters[0].device
    steps = max(1, min(math.ceil(n / batch_size), n // 2))
    epochs = max(epochs, math.ceil(min_steps / steps)) if epochs else 0
    batches = Batches(n, steps, mix(seed, 0))
    adam = optimizer(parameters, lr=lr, weight_decay=weight_decay)
    history = []
    with tqdm(total=epochs * steps, desc=title, unit="step", disable=not verbose, leave=False) as bar:
        for epoch in range(epochs):
            total = 0.0
            for step in range(epoch * steps, (epoch + 1) * steps):
                if rate is not None:
                    for group in adam.param_groups:
                        group["lr"] = lr * rate(step / (epochs * steps))
                value = loss(torch.from_numpy(batches.rows(step)).to(device))
                if not torch.isfinite(value):
                    raise FloatingPointError(
                        f"The training of {title or 'the network'} diverged in step {step} (its loss is "
                        f"{value.item()}); lower lr, or scale the features to unit rows."
                    )
                adam.zero_grad(set_to_none=True)
                value.backward()  # type: ignore[no-untyped-call]
                if clip is not None:
                    nn.utils.clip_grad_norm_(parameters, clip)
                adam.step()
                if after_step is not None:
                    after_step(step)
                total += value.item()
                bar.update()
            history.append(total / steps)
            bar.set_postfix(loss=f"{history[-1]:.4g}")
    return history


def cosine(done: float) -> float:
    """Cosine annealing from 1 to 0, a ``rate`` for ``train``.

    >>> [round(cosine(t), 3) for t in (0.0, 0.5, 1.0)]
    [1.0, 0.5, 0.0]
    """
    return 0.5 * (1 + math.cos(math.pi * done))


class Teacher:
    """A copy of a network that follows it slowly: ``teacher <- m teacher + (1 - m) student``, buffers copied.

    >>> student = nn.Linear(1, 1, bias=False)
    >>> teacher = Teacher(student)
    >>> start = teacher.network.weight.item()
    >>> _ = nn.init.constant_(student.weight, start + 1)
    >>> teacher.follow(0.75)
    >>> round(teacher.network.weight.item() - start, 4)
    0.25
    """

    def __init__(self, student: nn.Module) -> None:
        self.student = student
        self.network = copy.deepcopy(student).requires_grad_(False)

    @torch.no_grad()
    def follow(self, momentum: float) -> None:
        torch._foreach_lerp_(list(self.network.parameters()), list(self.student.parameters()), 1 - momentum)
        for own, other in zip(self.network.buffers(), self.student.buffers(), strict=True):
            own.copy_(other)


@contextlib.contextmanager
def seeded(seed: int) -> Iterator[None]:
    """torch's global generators start from ``seed`` inside, and go on outside as if nothing had been.

    >>> with seeded(0):
    ...     a = torch.rand(1)
    >>> with seeded(0):
    ...     b = torch.rand(1)
    >>> bool(a == b)
    True
    """
    with torch.random.fork_rng():
        torch.manual_seed(mix(seed, 1))
        yield


@torch.inference_mode()
def in_blocks(
    function: Callable[[Tensor], Tensor], network: nn.Module, X: Float32 | Tensor, rows: int = PREDICT_ROWS
) -> Tensor:
    """``function`` of ``X (n, D)``, a block of rows at a time on the network's device; the result on the CPU."""
    device = next(network.parameters()).device
    X = torch.from_numpy(np.require(X, requirements="W")) if isinstance(X, np.ndarray) else X
    return torch.cat([function(X[i : i + rows].to(device)).cpu() for i in range(0, len(X), rows)])
