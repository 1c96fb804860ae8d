"""Cells of a table: our numbers and the paper's."""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from cgmcr2.experiments.choices import LabelSource
from cgmcr2.experiments.job import JobResult

from .definition import PaperTable, TableRow

COSTS = ("seconds_per_iteration", "memory_mb")
COST = ""  # name in place of a data set, for cells with the cost of an iteration


@dataclasses.dataclass(frozen=True)
class TableCell:
    """One cell of a table: our number and the paper's, NaN if missing. Scores are percentages."""

    row: str
    dataset: str  # COST for the cost of an iteration
    column: str
    mean: float
    std: float
    seeds: int  # number of finished seeds
    paper: float
    paper_std: float
    note: str = ""  # why the cell, or one of its seeds, has no number

    @property
    def difference(self) -> float:
        return self.mean - self.paper


def score_cells(
    table: PaperTable, row: TableRow, dataset: str, results: list[JobResult], labels_by: LabelSource, reason: str
) -> list[TableCell]:
    """Return one cell per column of the table for the results of a row on a data set."""
    failures = [f"seed {result['seed']} failed: {result['error']}" for result in results if "error" in result]
    finished = [result for result in results if "error" not in result]
    scores = [result["spectral"] if labels_by == "spectral" else result for result in finished]
    no_number = [math.nan] * len(table.columns)
    papers, paper_stds = row.paper.get(dataset, no_number), row.paper_std.get(dataset, no_number)
    return [
        _cell(row.label, dataset, column, [100 * s[column] for s in scores], paper, std, reason or "; ".join(failures))
        for column, paper, std in zip(table.columns, papers, paper_stds, strict=True)
    ]


def cost_cells(row: TableRow, results: list[JobResult]) -> list[TableCell]:
    """Return the cells with the cost of an iteration of a row."""
    note = "; ".join(f"failed: {result['error']}" for result in results if "error" in result)
    cells = []
    for column, paper in zip(COSTS, row.paper_cost or (math.nan, math.nan), strict=True):
        values = [result[column] for result in results if result.get(column) is not None]
        cells.append(_cell(row.label, COST, column, values, paper, math.nan, note))
    return cells


def _cell(
    row: str, dataset: str, column: str, values: list[float], paper: float, paper_std: float, note: str
) -> TableCell:
    mean, std = (float(np.mean(values)), float(np.std(values))) if values else (math.nan, math.nan)
    return TableCell(row, dataset, column, mean, std, len(values), paper, paper_std, note)
