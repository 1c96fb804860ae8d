"""How sure an answer may be, without labels: as sure as other ways of partitioning the same rows bear it out.

A trained head is nearly always certain, right or wrong. Here a sample of the rows is partitioned anew, by k-means in
each linear view after walks of several lengths, and each partition's clusters are matched one to one with the
head's. The share of rows on which they agree is about the share that is right (measured: docs/trust.md), so
memberships are ``softmax(logits / T)`` with the temperature T that makes the mean confidence equal to it.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from cgmcr2.features.sources import FeatureSource, read_rows

from .kmeans import kmeans
from .smoothing import smooth_views
from .views import Int64

ROWS, ROWS_EACH = 3_000, 20  # rows of the sample: so many, or so many for each cluster
WALKS = (2, 4, 8)
STARTS = 2  # k-means in each view after each walk


@dataclasses.dataclass(frozen=True)
class Calibration:
    """``temperature`` to divide logits by, and ``agreement``, 0 to 1, with partitions that were made in other ways."""

    temperature: float = 1.0
    agreement: float = 1.0


def calibrate(
    source: FeatureSource, logits_of: Callable[[npt.NDArray[np.float32]], Tensor], k: int, seed: int = 0
) -> Calibration:
    """The calibration of a head that gives ``logits_of(rows) (m, k)`` for rows of ``source (n, D)``."""
    n = source.shape[0]
    if k < 2 or n < 4:
        return Calibration()
    most = max(ROWS, ROWS_EACH * k)
    rows = np.arange(n) if n <= most else np.sort(np.random.default_rng([seed, 5]).choice(n, most, replace=False))
    X = read_rows(source, rows)
    logits = logits_of(X)
    labels: Int64 = logits.argmax(1).numpy()
    generator = torch.Generator().manual_seed(seed)
    others = [
        partition
        for Ys in smooth_views(X, WALKS, seed)[1]
        for Y in Ys
        for partition in kmeans(Y, k, STARTS, generator)[0].numpy()
    ]
    agreement = float(np.mean([(matched(other, labels, k) == labels).mean() for other in others]))
    return Calibration(temperature_for(logits, agreement), agreement)


def matched(partition: Int64, labels: Int64, k: int) -> Int64:
    """``partition (n,)`` with its k clusters renumbered, one to one, to agree with ``labels (n,)`` on most rows.

    >>> matched(np.array([1, 1, 0, 0]), np.array([0, 0, 1, 0]), 2)
    array([0, 0, 1, 1])
    """
    shared = np.bincount(partition * k + labels, minlength=k * k).reshape(k, k)
    number: Int64 = linear_sum_assignment(shared, maximize=True)[1]
    return number[partition]


def temperature_for(logits: Tensor, confidence: float) -> float:
    """The T at which the largest entry of ``softmax(logits / T)`` is ``confidence`` in the mean over the rows.

    >>> logits = torch.tensor([[2.0, 0.0], [0.0, 2.0]])
    >>> round(temperature_for(logits, torch.sigmoid(torch.tensor(0.5)).item()), 3)
    4.0
    """
    low, high = math.log(1e-3), math.log(1e4)
    for _ in range(50):  # the confidence falls as T grows
        middle = (low + high) / 2
        mean = (logits.double() / math.exp(middle)).softmax(1).amax(1).mean().item()
        low, high = (middle, high) if mean > confidence else (low, middle)
    return math.exp((low + high) / 2)
