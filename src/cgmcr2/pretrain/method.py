"""What a self-supervised method is: modules, a loss of augmented views, and an update after each step.

To add a method, write a subclass of `Method` in a file of its own and list it in `registry.py`.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from cgmcr2.distributed import ONE_PROCESS, Group

from .augment import Augmentation
from .settings import Settings


class Loss(NamedTuple):
    """Terms whose sum is minimised, and the embedding (n, d) whose spread is monitored."""

    terms: dict[str, Tensor]
    Z: Tensor


@dataclasses.dataclass(frozen=True)
class Batch:
    """The batch of a step: row numbers (n,) of all its images, and the processes that share them."""

    rows: npt.NDArray[np.int64]
    step: int
    seed: int = 0
    group: Group = ONE_PROCESS

    def gather(self, X: Tensor) -> Tensor:
        """The rows (n, ...) of all processes in float32, given those of this process; differentiable."""
        return self.group.gather(X.float(), len(self.rows))


class Method(nn.Module):
    """A self-supervised method.

    Subclasses take ``(backbone, D, n, **options)``: the network to be trained, its number of features, and the number
    of images; the options are keyword-only and have defaults.

    With several processes, ``views`` are the part of this process. BatchNorm uses the statistics of the whole batch.
    Apply all parameters before ``batch.gather``, and compute the loss from its result: then every process has the loss
    of the whole batch, and the sum of the gradients over the processes is its gradient.
    """

    defaults: ClassVar[Mapping[str, Any]] = {}  # settings of the loop in which the method differs from `Settings`
    may_be_zero: ClassVar[frozenset[str]] = frozenset()  # options; all other numbers among them must be above 0

    def __init__(self, backbone: nn.Module) -> None:
        super().__init__()
        self.backbone = backbone

    @classmethod
    def check(cls, settings: Settings, options: Mapping[str, Any]) -> None:
        """Raise ``ValueError`` if the options are invalid, alone or with these settings."""
        for name, value in options.items():
            if not isinstance(value, (bool, str)):
                check_positive(name, value, may_be_zero=name in cls.may_be_zero)

    def forward(self, pixels: Tensor) -> Tensor:
        """Features (n, D) of normalised images (n, 3, h, w)."""
        features: Tensor = self.backbone(pixels)
        return features

    def augmentations(self, augmentation: Augmentation) -> tuple[Augmentation, ...]:
        """The augmentation of each view; two views by default."""
        return augmentation, augmentation

    def companions(self, batch: Batch) -> list[npt.NDArray[np.int64]]:
        """Rows (n,) of other images, such as neighbours; their views, by the first augmentation, follow the others."""
        return []

    def loss(self, views: list[Tensor], batch: Batch) -> Loss:
        """The loss of a batch, given its views (b, 3, h, w)."""
        raise NotImplementedError

    def after_step(self, batch: Batch) -> None:
        """Update what the optimizer does not, such as a momentum encoder; not called after a skipped step."""


def check_positive(name: str, value: float, *, may_be_zero: bool = False) -> None:
    """Raise ``ValueError`` unless ``value`` is finite and above 0, or 0 if it may be."""
    if not (0 < value < math.inf or (may_be_zero and value == 0)):
        raise ValueError(f"{name} must be {'at least' if may_be_zero else 'above'} 0, but is {value!r}.")


def random_neighbours(nearest: Tensor, batch: Batch) -> npt.NDArray[np.int64]:
    """One of the ``nearest (N, m)`` neighbours of each image of the batch, at random."""
    rows = nearest[torch.from_numpy(batch.rows).to(nearest.device)].cpu().numpy()
    columns = np.random.default_rng([batch.seed, batch.step]).integers(rows.shape[1], size=len(rows))
    return np.asarray(rows[np.arange(len(rows)), columns])


def projection_head(D: int, hidden: int, dim: int, *, batch_norm: bool = False) -> nn.Sequential:
    """The MLP of SimCLR and MoCo-v2, from features (n, D) to an embedding (n, dim).

    >>> projection_head(8, 16, 4)(torch.zeros(2, 8)).shape
    torch.Size([2, 4])
    """
    normalization = [nn.BatchNorm1d(hidden)] if batch_norm else []
    return nn.Sequential(nn.Linear(D, hidden), *normalization, nn.ReLU(), nn.Linear(hidden, dim))


def spread(Z: Tensor) -> Tensor:
    """Spread of an embedding (n, d): 1 if unit rows point in all directions, 0 if all rows are equal (collapse).

    The mean over the dimensions of the standard deviation of unit rows, times the square root of d.

    >>> round(spread(torch.cat([torch.eye(4), -torch.eye(4)])).item(), 3), spread(torch.ones(5, 4)).item()
    (1.0, 0.0)
    """
    rows = torch.nn.functional.normalize(Z.detach().float(), dim=1)
    return rows.std(0, correction=0).mean() * math.sqrt(Z.shape[1])
