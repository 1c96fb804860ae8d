"""The neighbour graph of the whole data set, restricted to a batch."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch

from cgmcr2.objectives import Edges


class NeighbourGraph:
    """A graph with an edge from each row to its ``neighbours (n, m)``; repeated edges add up.

    >>> graph = NeighbourGraph(np.array([[1], [0], [0]]))
    >>> graph.edges(np.array([0, 2])).dense()
    tensor([[0.0000, 0.5000],
            [0.5000, 0.0000]])
    """

    def __init__(self, neighbours: npt.NDArray[np.int64]) -> None:
        self.neighbours = neighbours
        self._position = np.full(len(neighbours), -1, dtype=np.int64)  # of each row within the batch

    def edges(self, rows: npt.NDArray[np.int64], device: torch.device | None = None) -> Edges:
        """The edges among the distinct ``rows (b,)``, which are renumbered 0 ... b-1."""
        self._position[rows] = np.arange(len(rows))
        targets = self._position[self.neighbours[rows]]  # (b, m), -1 outside the batch
        self._position[rows] = -1
        first, slot = np.nonzero(targets >= 0)
        ends = torch.from_numpy(np.stack([first, targets[first, slot]])).to(device)
        return Edges(ends[0], ends[1], torch.ones(len(first), device=device), len(rows))
