"""Learning curves: terms of the objective in each step, ACC and NMI after each epoch."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from cgmcr2.experiments.plotting import BLUE, GREEN, VERMILLION, add_legend, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D


@dataclasses.dataclass
class Curves:
    """Learning curves of a training run: ``terms[name]`` in each step, ``scores[name]`` (0 to 1) after each epoch."""

    terms: Mapping[str, Sequence[float]]
    scores: Mapping[str, Sequence[float]]
    steps_per_epoch: int
    warmup_steps: int


def draw_learning_curves(name: str, curves: Curves) -> Figure:
    """Draw two panels: (a) the terms of the objective, (b) ACC and NMI."""
    figure = new_figure(9, 3.6)
    left, right = figure.subplots(1, 2)
    handles = [*_draw_terms(left, curves), *_draw_scores(right, curves)]
    left.set_title(f"(a) terms on {name}")
    right.set_title(f"(b) ACC and NMI on {name}")
    add_legend(figure, handles)
    return figure


def draw_term_curves(panels: Mapping[str, Curves]) -> Figure:
    """Draw the terms of the objective during training, one panel per data set, three in a row."""
    return _draw_grid(panels, _draw_terms)


def draw_score_curves(panels: Mapping[str, Curves]) -> Figure:
    """Draw ACC and NMI during training, one panel per data set, three in a row."""
    return _draw_grid(panels, _draw_scores)


def moving_average(values: npt.NDArray[np.floating[Any]], window: int) -> npt.NDArray[np.floating[Any]]:
    """Centred moving average over ``window`` values, truncated at both ends.

    >>> moving_average(np.array([1.0, 3.0, 5.0, 7.0]), 3)
    array([2., 3., 5., 6.])
    """
    sums = np.concatenate([[0.0], np.cumsum(values)])
    index = np.arange(len(values))
    start, stop = np.maximum(0, index - window // 2), np.minimum(len(values), index + window // 2 + 1)
    return np.asarray((sums[stop] - sums[start]) / (stop - start))


def _draw_grid(panels: Mapping[str, Curves], draw: Callable[[Axes, Curves], list[Line2D]]) -> Figure:
    columns = min(3, len(panels))
    rows = -(-len(panels) // columns)
    figure = new_figure(3.9 * columns, 2.7 * rows + 0.4)
    grid = figure.subplots(rows, columns, squeeze=False).ravel()
    for empty in grid[len(panels) :]:
        empty.set_visible(False)
    handles: list[Line2D] = []
    for axes, (name, curves) in zip(grid, panels.items(), strict=False):
        handles = draw(axes, curves)
        axes.set_title(name)
    add_legend(figure, handles)
    return figure


def _draw_terms(axes: Axes, curves: Curves) -> list[Line2D]:
    """Draw R and Rc (left axis) and the cut with its penalty (right axis) in each step, with moving averages."""
    right = axes.twinx()
    cut = "$L_{\\mathrm{Ncut}}$"
    styles = (
        ("Lncut", f"{cut} (right axis)", GREEN, "-.", right),
        ("Rc", "$R_c$", VERMILLION, "--", axes),
        ("R", "$R$", BLUE, "-", axes),
    )
    handles = []
    for name, label, color, dashes, panel in styles:
        values = np.asarray(curves.terms[name], dtype=float)
        first = curves.warmup_steps if name == "Rc" else 0  # Rc is not computed in the warm-up
        epochs = np.arange(first + 1, len(values) + 1) / curves.steps_per_epoch
        panel.plot(epochs, values[first:], color=color, linewidth=0.6, alpha=0.35)
        means = moving_average(values[first:], curves.steps_per_epoch)
        handles += panel.plot(epochs, means, color=color, linestyle=dashes, linewidth=1.5, label=label)
    right.tick_params(axis="y", colors=GREEN)
    right.set_ylabel(cut, color=GREEN)
    axes.set_ylabel("$R$, $R_c$ (nats)")
    axes.set_zorder(right.get_zorder() + 1)  # draw the rates above the cut
    axes.patch.set_visible(False)
    _mark_stages(axes, curves)
    return handles[::-1]


def _draw_scores(axes: Axes, curves: Curves) -> list[Line2D]:
    handles = []
    for name, label, color, marker in (("acc", "ACC", BLUE, "o"), ("nmi", "NMI", VERMILLION, "s")):
        values = 100 * np.asarray(curves.scores[name], dtype=float)
        handles += axes.plot(
            np.arange(1, len(values) + 1),
            values,
            color=color,
            marker=marker,
            markevery=max(1, len(values) // 10),
            markersize=4,
            linewidth=1.5,
            label=label,
        )
    axes.set_ylabel("%")
    axes.grid(alpha=0.3)
    _mark_stages(axes, curves)
    return handles


def _mark_stages(axes: Axes, curves: Curves) -> None:
    """Draw a vertical line at the beginning of fine-tuning."""
    axes.set_xlabel("epoch")
    if 0 < curves.warmup_steps < len(curves.terms["R"]):
        axes.axvline(curves.warmup_steps / curves.steps_per_epoch, color="0.5", linewidth=0.8, linestyle=":")
