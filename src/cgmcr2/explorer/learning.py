"""Ask for the images that teach most, and learn from the edits, while others may edit."""

from __future__ import annotations

import copy
import threading
import time
from functools import cached_property
from typing import Any

import numpy as np

from cgmcr2.clustering import Clustering
from cgmcr2.runs.edits import Edits
from cgmcr2.runs.refine import Question, Refinement, Refiner


class StaleStateError(ValueError):
    """The request was made for a state that is no longer the current one."""


class Learning:
    """Review and refinement of open edits.

    Parameters
    ----------
    edits : the open edits of a run
    lock : held by whoever edits
    available : whether the model and the features of the run are available
    """

    def __init__(self, edits: Edits, lock: threading.Lock, *, available: bool) -> None:
        self.edits, self.available = edits, available
        self._lock = lock
        self._refinement: Refinement | None = None

    def review(self, count: int) -> list[dict[str, Any]]:
        """Images to confirm, most useful first, with their two most probable clusters."""
        questions = (
            self._refiner_copy().questions(count) if self.available else least_certain(self.edits.clustering, count)
        )
        return [question._asdict() for question in questions]

    def refine(self) -> dict[str, Any]:
        """Learn from the edits and return what would move, which ``accept`` writes."""
        if not self.available:
            raise ValueError("Learning from edits needs the model and the features of the run, but they are missing.")
        start = time.monotonic()
        refinement = self._refiner_copy().refine()
        self._refinement = refinement
        moves = [{"from": move.origin, "to": move.target, "rows": move.rows.tolist()} for move in refinement.moves]
        return {"moves": moves, "changed": len(refinement.rows), "seconds": round(time.monotonic() - start, 2)}

    def accept(self, state: str, rows: list[int] | None = None) -> None:
        """Write the last refinement, or these rows of it, as one edit of ``state``; the caller holds the lock."""
        refinement = self._refinement
        if refinement is None:
            raise ValueError("There is no refinement to accept; refine first.")
        if not state == refinement.state == self.edits.state:
            raise StaleStateError("The clusters were edited after this refinement; refine again.")
        refinement.edits = self.edits
        refinement.accept(rows)
        self._refinement = None

    def discard(self) -> None:
        """Forget the last refinement."""
        self._refinement = None

    @cached_property
    def _refiner(self) -> Refiner:
        return Refiner(self.edits)

    def _refiner_copy(self) -> Refiner:
        """The refiner with a copy of the edits as they are now."""
        self._refiner.graph  # noqa: B018 - computed once, and shared by the copies
        refiner = copy.copy(self._refiner)
        with self._lock:
            refiner.edits = copy.copy(self.edits)
            refiner.edits.log = list(self.edits.log)
        return refiner


def least_certain(clustering: Clustering, count: int) -> list[Question]:
    """The images of smallest margin that are neither locked nor excluded.

    >>> c = Clustering(["a", "b", "c"], [0, 0, 1], probabilities=[[1, 0], [0.75, 0.25], [0.375, 0.625]])
    >>> least_certain(c, 1)
    [Question(row=2, first=1, second=0, p_first=0.625, p_second=0.375)]
    """
    if clustering.memberships is None:
        raise ValueError("A review needs the probabilities of the clusters, but this run has none.")
    rows = clustering.uncertain(n=len(clustering))
    open_questions = ~clustering.locked[rows] & (clustering.labels[rows] != clustering.excluded)
    rows = rows[open_questions & (clustering.runner_up[rows] >= 0)][:count]
    first, second = clustering.labels[rows], clustering.runner_up[rows]
    P, index = clustering.memberships[rows], np.arange(len(rows))
    columns = (rows, first, second, P[index, first].round(4), P[index, second].round(4))
    return [Question(*values) for values in zip(*(column.tolist() for column in columns), strict=True)]
