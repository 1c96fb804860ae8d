"""What training computes from the data before its first step: linear views, neighbours, the consensus partition."""

from __future__ import annotations

import dataclasses

import numpy as np
import torch
from torch import Tensor

from cgmcr2.consensus.ensemble import consensus_partition, neighbourhood
from cgmcr2.consensus.partitions import Int64
from cgmcr2.consensus.views import COMPONENTS, Views, space_views, unit_views, view_neighbours
from cgmcr2.features.sources import FeatureSource, read_rows

from .settings import Settings


@dataclasses.dataclass(frozen=True)
class Precomputed:
    """Precomputed inputs of training; None where the settings do not use them."""

    mean: Tensor | None = None  # (D,) mean of the unit rows
    standard: Tensor | None = None  # (D, p) the standard view of the feature space of most voters, else of all
    white: Tensor | None = None  # (D, p) its white view
    view: int | None = None  # the view that is projected: 0, the standard one, or 1, the white one, if most voters do
    neighbours: Int64 | None = None  # (n, 2 m) nearest neighbours in both views of the projected feature space
    partition: Int64 | None = None  # (n,) the consensus partition

    def tensors(self) -> dict[str, Tensor]:
        """The inputs that are not None, as tensors by name."""
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return {name: torch.as_tensor(value) for name, value in values.items() if value is not None}

    @classmethod
    def from_tensors(cls, tensors: dict[str, Tensor]) -> Precomputed:
        """The inverse of ``tensors``."""
        arrays = {name: tensors[name].numpy() for name in ("neighbours", "partition") if name in tensors}
        view = int(tensors["view"]) if "view" in tensors else None
        return cls(tensors.get("mean"), tensors.get("standard"), tensors.get("white"), view, **arrays)

    @property
    def matrix(self) -> Tensor | None:
        """(D, p) the projection."""
        return self.white if self.view == 1 else self.standard

    def views(self, spaces: tuple[int, ...]) -> Views | None:
        """Both views of the feature space that is projected; ``spaces`` are the widths of all feature spaces."""
        if self.mean is None or self.standard is None or self.white is None:
            return None
        return Views(self.mean, self.standard, self.white, spaces)


def precompute(
    source: FeatureSource,
    k: int,
    settings: Settings,
    seed: int,
    *,
    spaces: tuple[int, ...] = (),
    partition: Int64 | None = None,
    progress: bool = False,
) -> Precomputed:
    """Compute the inputs that ``settings`` ask for from the rows of ``source (n, D)``.

    ``partition (n,)`` replaces the consensus partition.
    """
    if not (settings.projection or settings.neighbours or settings.consensus_weight):
        return Precomputed()
    p = min(settings.projection or COMPONENTS, source.shape[1])
    views = space_views(source, p, seed, spaces)
    m = max(settings.neighbours, 2 * neighbourhood(source.shape[0], k) if settings.consensus_weight else 0)
    neighbours, view = None, 2 * (len(views) - 1)  # the standard view of all spaces
    if m:
        nearest = view_neighbours(source, views, m, seed)
        if settings.consensus_weight and partition is None:
            unit = unit_views(views, torch.from_numpy(read_rows(source, slice(None))))
            partition, view = consensus_partition(unit, nearest, k, seed, progress=progress)
        if settings.neighbours:
            pair = slice(view - view % 2, view - view % 2 + 2)  # both views of the space that is projected
            neighbours = np.concatenate(nearest[pair, :, : settings.neighbours], axis=1)
    projected = views[view // 2]
    return Precomputed(projected.mean, projected.standard, projected.white, view % 2, neighbours, partition)
