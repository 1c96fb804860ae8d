"""Which rows a step sees: drawn from (seed, epoch) alone, so that a resumed run sees the same."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Indices = npt.NDArray[np.int64]


class Batches:
    """``rows(step)`` for every step. An epoch is a random order of all n rows cut into nearly equal parts.

    With ``neighbours`` (n, m), the nearest rows of each row, half of a batch is drawn like that and the other half
    is one random neighbour of each, so that every point meets a likely member of its cluster.

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
        self.batch_size = batch_size  # given: batches of exactly this size, the remainder of an epoch is left out
        self.neighbours = neighbours
        self._latest: tuple[int, Indices] = (-1, np.empty(0, dtype=np.int64))  # epoch and its order

    def rows(self, step: int) -> Indices:
        epoch, position = divmod(step, self.steps_per_epoch)
        latest = self._latest  # read and replaced as one: a reader thread asks for the next step meanwhile
        if latest[0] != epoch:
            self._latest = latest = epoch, np.random.default_rng([self.seed, epoch]).permutation(self.n)
        order = latest[1]
        if self.batch_size is not None:
            rows = order[position * self.batch_size : (position + 1) * self.batch_size]
        else:
            edges = np.linspace(0, self.n, self.steps_per_epoch + 1).round().astype(int)
            rows = order[edges[position] : edges[position + 1]]
        if self.neighbours is not None:
            rows = rows[: max(2, len(rows) // 2)]
            random = np.random.default_rng([self.seed, epoch, position])
            chosen = random.integers(self.neighbours.shape[1], size=len(rows))
            rows = np.unique(np.concatenate([rows, self.neighbours[rows, chosen]]))
        return rows
