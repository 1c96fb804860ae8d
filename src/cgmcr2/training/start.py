"""What training computes from the data before its first step: linear views, neighbours, the initial partition."""

from __future__ import annotations

import dataclasses

import numpy as np
import torch

from cgmcr2.consensus import ensemble as consensus
from cgmcr2.consensus.views import Int64, Views, linear_views, nearest_neighbours
from cgmcr2.features.sources import FeatureSource, read_rows

from .settings import Settings


@dataclasses.dataclass(frozen=True)
class Start:
    """What the settings ask for; None is what they do not."""

    views: Views | None = None
    neighbours: Int64 | None = None  # (n, 2 m), of both views
    partition: Int64 | None = None  # (n,) clusters to begin with
    white: bool = False  # the partition was found in the white view alone, and the network is to see that one


def prepare(source: FeatureSource, k: int, settings: Settings, seed: int, *, progress: bool = False) -> Start:
    """Everything that training on the rows of ``source (n, D)`` begins with."""
    if not (settings.projection or settings.neighbours or settings.guide):
        return Start()
    views = linear_views(source, min(settings.projection or 256, source.shape[1]), seed)
    m = max(settings.neighbours, consensus.SHARED * max(consensus.SCALES) if settings.guide else 0)
    if not m:
        return Start(views)
    near = nearest_neighbours(source, views, m, seed)
    neighbours = np.concatenate(near[:, :, : settings.neighbours], axis=1) if settings.neighbours else None
    if not settings.guide:
        return Start(views, neighbours)
    standard, white = views.unit(torch.from_numpy(read_rows(source, slice(None))))
    found = consensus.consensus(standard, white, near, k, seed, progress=progress)
    return Start(views, neighbours, found.labels, found.white)
