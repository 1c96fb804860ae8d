"""Sensitivity of the scores to two settings (Figures 4 and 5), drawn from the runs of their tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cgmcr2.datasets import dataset_info
from cgmcr2.experiments.overrides import QUICK_SETTINGS, override
from cgmcr2.experiments.plotting import COLORS, MARKERS, add_footnote, add_legend, new_figure, save_figure
from cgmcr2.experiments.tables.reproduction import TableResult

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SETTINGS = {"figure-4": ("gamma", "eps"), "figure-5": ("hidden_dim", "depth")}  # x axis, lines
TITLES = {"gamma": "$\\gamma$", "eps": "$\\epsilon$", "hidden_dim": "width", "depth": "hidden layers"}

Point = dict[str, Any]  # two settings, and each score as (mean, std) in percent


def save_sensitivity(
    result: TableResult,
    folder: Path,
    *,
    quick: bool = False,
    settings: Mapping[str, Any] | None = None,
    dpi: int = 200,
) -> list[Path]:
    """Draw the result of ``figure-4`` or ``figure-5`` as PNG and PDF.

    ``quick`` and ``settings`` are those of the runs; they determine the values on the axes.
    """
    x, lines = SETTINGS[result.table.name]
    panels = {
        dataset_info(name).title: sensitivity_points(result, name, quick=quick, settings=settings or {})
        for name in result.datasets
    }
    figure = draw_sensitivity(panels, x, lines, scores=result.table.columns)
    notes = [note for note in result.notes if note != result.table.note and " is left out: " not in note]
    add_footnote(figure, " ".join(notes))
    return save_figure(figure, folder / result.table.name, dpi=dpi)


def sensitivity_points(result: TableResult, dataset: str, *, quick: bool, settings: Mapping[str, Any]) -> list[Point]:
    """Return one point per row of the table with a finished run."""
    x, lines = SETTINGS[result.table.name]
    cells = {(cell.row, cell.column): cell for cell in result.cells if cell.dataset == dataset}
    points = []
    for row in result.table.rows:
        row_cells = [cells[row.label, column] for column in result.table.columns]
        if all(cell.seeds for cell in row_cells):
            values = override(row.settings_for(dataset), QUICK_SETTINGS if quick else {})
            values = override({"depth": 1, **values}, settings)
            scores = {cell.column: (cell.mean, cell.std) for cell in row_cells}
            points.append({x: values[x], lines: values[lines], **scores})
    return points


def draw_sensitivity(
    panels: Mapping[str, Sequence[Point]], x: str, lines: str, *, scores: Sequence[str] = ("acc", "nmi")
) -> Figure:
    """Plot mean ± std against the setting ``x``, one line per value of the setting ``lines``.

    There is one row of panels per score, and one column per data set of ``panels``.
    """
    figure = new_figure(4.2 * len(panels) + 0.4, 2.6 * len(scores) + 0.6)
    grid = figure.subplots(len(scores), len(panels), squeeze=False, sharex="col")
    for column, (name, points) in enumerate(panels.items()):
        ticks = sorted({point[x] for point in points})
        groups = sorted({point[lines] for point in points})
        for row, score in enumerate(scores):
            axes = grid[row, column]
            for number, group in enumerate(groups):
                members = sorted((point for point in points if point[lines] == group), key=lambda point: point[x])
                shift = 0.06 * (number - (len(groups) - 1) / 2)  # keeps the error bars apart
                axes.errorbar(
                    [ticks.index(point[x]) + shift for point in members],  # evenly spaced
                    [point[score][0] for point in members],
                    yerr=[point[score][1] for point in members],
                    color=COLORS[number % len(COLORS)],
                    marker=MARKERS[number % len(MARKERS)],
                    markersize=5,
                    capsize=2,
                    linewidth=1.2,
                    label=f"{TITLES.get(lines, lines)} = {group:g}",
                )
            axes.set_ylabel(f"{score.upper()} %")
            axes.grid(alpha=0.3)
            axes.set_xticks(range(len(ticks)), [f"{value:g}" for value in ticks])
        grid[0, column].set_title(name)
        grid[-1, column].set_xlabel(TITLES.get(x, x))
    add_legend(figure, grid[0, 0].get_legend_handles_labels()[0])
    return figure
