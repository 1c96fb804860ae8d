"""The rows of each batch, drawn from (seed, epoch) only, so that a resumed run draws the same."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

Indices = npt.NDArray[np.int64]


def steps_per_epoch(n: int, batch_size: int) -> int:
    """Batches per epoch of n rows, of nearly equal size: at most ``batch_size`` rows, at least 2 (BatchNorm).

    >>> steps_per_epoch(101, 50), steps_per_epoch(3, 2)
    (3, 1)
    """
    return max(1, min(math.ceil(n / batch_size), n // 2))


class Batches:
    """Random batches: an epoch is a random permutation of the n rows, split into nearly equal batches.

    Args:
        n: number of rows.
        steps_per_epoch: batches per epoch.
        seed: random seed.
        batch_size: use batches of exactly this size and drop the remainder of an epoch.
        neighbours: (n, m) nearest neighbours of each row. Half of each batch is then drawn as above, and the other half
            is one random neighbour of each of those rows, so that every row meets a likely member of its cluster.

    >>> batches = Batches(n=5, steps_per_epoch=2, seed=0)
    >>> sorted([*batches.rows(0), *batches.rows(1)]) == [0, 1, 2, 3, 4]
    True
    """

    def __init__(
        self,
        n: int,
        steps_per_epoch: int,
        seed: int,
        *,
        batch_size: int | None = None,
        neighbours: npt.NDArray[np.integer] | None = None,
    ) -> None:
        self.n = n
        self.steps_per_epoch = steps_per_epoch
        self.seed = seed
        self.batch_size = batch_size
        self.neighbours = neighbours
        # Number and content in one tuple, because a reader thread may replace it.
        self._permutation: tuple[int, Indices] = (-1, np.empty(0, dtype=np.int64))  # of the latest epoch
        self._rows: tuple[int, Indices] = (-1, np.empty(0, dtype=np.int64))  # of the latest step

    def rows(self, step: int) -> Indices:
        """The rows of the batch of ``step``."""
        latest = self._rows
        if latest[0] != step:
            self._rows = latest = step, self._draw(step)
        return latest[1]

    def _draw(self, step: int) -> Indices:
        epoch, position = divmod(step, self.steps_per_epoch)
        latest = self._permutation
        if latest[0] != epoch:
            self._permutation = latest = epoch, np.random.default_rng([self.seed, epoch]).permutation(self.n)
        order = latest[1]
        if self.batch_size is not None:
            rows = order[position * self.batch_size : (position + 1) * self.batch_size]
        else:
            edges = np.linspace(0, self.n, self.steps_per_epoch + 1).round().astype(int)
            rows = order[edges[position] : edges[position + 1]]
        if self.neighbours is not None:
            rows = rows[: max(2, len(rows) // 2)]
            rng = np.random.default_rng([self.seed, epoch, position])
            columns = rng.integers(self.neighbours.shape[1], size=len(rows))
            rows = np.unique(np.concatenate([rows, self.neighbours[rows, columns]]))
        return rows
