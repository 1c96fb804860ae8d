"""Evaluation protocol: which rows were fitted, which were predicted, and how."""

from __future__ import annotations

import dataclasses
from typing import Literal


@dataclasses.dataclass(frozen=True)
class Protocol:
    """Evaluation protocol, printed with every score.

    >>> print(Protocol("split 0", 18000, "split 1", 5000))
    fitted on split 0 (18,000 rows), predicted split 1 (5,000 rows) with the cluster head, 1 seed
    """

    trained_on: str
    n_trained: int
    predicted: str
    n_predicted: int
    labels_by: Literal["head", "spectral"] = "head"
    seeds: int = 1

    def __str__(self) -> str:
        method = "with the cluster head" if self.labels_by == "head" else "by spectral clustering of the embedding"
        seeds = "1 seed" if self.seeds == 1 else f"mean and std over {self.seeds} seeds"
        return (
            f"fitted on {self.trained_on} ({self.n_trained:,} rows), "
            f"predicted {self.predicted} ({self.n_predicted:,} rows) {method}, {seeds}"
        )
