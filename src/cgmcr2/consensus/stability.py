"""Stability of clusters, and calibration of their confidence, without labels.

*Stability.* A sample of the rows is partitioned again, by k-means in each smoothed view, and the clusters are matched
one to one with the head's. The stability is the share of rows on which they agree.

*Calibration.* A trained cluster head is nearly always certain, right or wrong, above all of the rows it was trained on.
Memberships are therefore ``softmax(logits / T)``. For a head that was guided by the consensus, each row is predicted
from its nearest neighbours, by the mean of their logits: T is the temperature at which the mean confidence of that
prediction equals the share of rows it is right for. Otherwise T is the temperature at which the mean confidence equals
the stability: k-means is less accurate than the consensus, but no less than a head without it.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import numpy.typing as npt
import torch
from scipy.optimize import brentq
from torch import Tensor

from cgmcr2._random import Stream, generator, sample_rows

from .kmeans import kmeans
from .partitions import Int64, match_clusters
from .views import Views, smoothed_views

WALK_STEPS = (2, 4, 8)  # lengths of the random walk that smooths the views
STARTS = 2  # k-means runs per view and walk length
TEMPERATURES = (1e-3, 1e4)  # range of the temperature


@dataclasses.dataclass(frozen=True)
class Calibration:
    """The temperature that divides the logits, and the stability in 0 ... 1."""

    temperature: float = 1.0
    stability: float = 1.0


def stability_rows(n: int, k: int, seed: int = 0) -> Int64:
    """The rows that ``calibrate`` judges: 3,000, or 20 per cluster if that is more; all n if there are fewer."""
    return sample_rows(n, max(3_000, 20 * k), generator(seed, Stream.STABILITY))


def calibrate(
    X: npt.NDArray[np.float32],
    logits: Tensor,
    k: int,
    seed: int = 0,
    *,
    guided: bool = False,
    views: Views | None = None,
) -> Calibration:
    """Calibrate a cluster head from its ``logits (n, k)`` for the rows ``X (n, D)``.

    ``guided`` tells whether the head was guided by the consensus partition, and ``views`` are those of the training.
    """
    if k < 2 or len(X) < 4:
        return Calibration()
    labels: Int64 = logits.argmax(1).numpy()
    rng = torch.Generator().manual_seed(seed)
    neighbours, smoothed = smoothed_views(X, WALK_STEPS, seed, views=views)
    partitions = [partition for view in smoothed for Y in view for partition in kmeans(Y, k, STARTS, rng)[0].numpy()]
    stability = float(np.mean([(match_clusters(partition, labels, k) == labels).mean() for partition in partitions]))
    if not guided:
        return Calibration(temperature_for(logits, stability), stability)
    prediction = torch.stack([logits[J[:, 0]] for J in neighbours]).mean(0)  # (n, k), by the nearest row in each view
    right = int((prediction.argmax(1).numpy() == labels).sum())
    return Calibration(temperature_for(prediction, right / (len(X) + 1)), stability)  # below 1, so that T stays finite


def temperature_for(logits: Tensor, confidence: float) -> float:
    """The temperature T at which ``softmax(logits / T)`` has the given mean confidence, within ``TEMPERATURES``.

    >>> logits = torch.tensor([[2.0, 0.0], [0.0, 2.0]])
    >>> round(temperature_for(logits, torch.sigmoid(torch.tensor(0.5)).item()), 3)
    4.0
    """
    scores = logits.double()

    def excess(log_temperature: float) -> float:
        return float((scores / math.exp(log_temperature)).softmax(1).amax(1).mean()) - confidence

    low, high = map(math.log, TEMPERATURES)
    if excess(low) <= 0:  # the mean confidence falls as T grows
        return TEMPERATURES[0]
    if excess(high) >= 0:
        return TEMPERATURES[1]
    return math.exp(float(brentq(excess, low, high)))
