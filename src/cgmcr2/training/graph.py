"""The neighbour graph of the whole data set, as far as a batch sees it."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch

from cgmcr2.objectives import Edges


class NeighbourGraph:
    """An edge from each row to every row that it names as its neighbour: ``neighbours (n, m)``.

    A pair that is named twice (by both, or in two views) weighs twice.

    >>> graph = NeighbourGraph(np.array([[1], [0], [0]]))
    >>> graph.edges(np.array([0, 2])).dense()
    tensor([[0.0000, 0.5000],
            [0.5000, 0.0000]])
    """

    def __init__(self, neighbours: npt.NDArray[np.int64]) -> None:
        self.neighbours = neighbours
        self._place = np.full(len(neighbours), -1, dtype=np.int64)  # of each row within the batch

    def edges(self, rows: npt.NDArray[np.int64], device: torch.device | None = None) -> Edges:
        """The edges among ``rows`` (distinct), which are numbered 0, 1, ... in their order."""
        self._place[rows] = np.arange(len(rows))
        targets = self._place[self.neighbours[rows]]  # (b, m), -1 outside of the batch
        self._place[rows] = -1
        first, slot = np.nonzero(targets >= 0)
        ends = torch.from_numpy(np.stack([first, targets[first, slot]])).to(device)
        return Edges(ends[0], ends[1], torch.ones(len(first), device=device), len(rows))
