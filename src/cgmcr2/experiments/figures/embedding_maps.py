"""Two-dimensional maps of features and embeddings, coloured by label."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from cgmcr2._arrays import unit_rows
from cgmcr2.experiments.plotting import COLORS, MARKERS, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Float = npt.NDArray[np.floating[Any]]
Int = npt.NDArray[np.integer[Any]]


def tsne(rows: Float) -> Float:
    """t-SNE (m, 2) of the rows (m, D), scaled to unit length, with perplexity 30, or (m - 1) / 3 if that is less."""
    from sklearn.manifold import TSNE

    perplexity = min(30.0, (len(rows) - 1) / 3)
    return np.asarray(TSNE(2, init="pca", perplexity=perplexity, random_state=0).fit_transform(unit_rows(rows)))


def draw_maps(
    panels: Mapping[str, tuple[Float, Float, Int]], *, before: str = "Features", after: str = "CgMCR²"
) -> Figure:
    """Draw maps before (top) and after (bottom) training, one column per data set.

    ``panels[name]`` are positions (m, 2) before, positions after, and labels (m,).
    """
    figure = new_figure(3 * len(panels), 6.2)
    grid = figure.subplots(2, len(panels), squeeze=False)
    for column, (name, (first, second, labels)) in enumerate(panels.items()):
        for row, (title, positions) in enumerate(((before, first), (after, second))):
            _scatter(grid[row, column], positions, labels)
            grid[row, column].set_title(f"{title}, {name}")
    return figure


def _scatter(axes: Axes, positions: Float, labels: Int) -> None:
    for number, label in enumerate(np.unique(labels)):
        x, y = np.asarray(positions)[np.asarray(labels) == label].T
        marker = MARKERS[number // len(COLORS) % len(MARKERS)]
        axes.scatter(x, y, s=7, linewidths=0, color=COLORS[number % len(COLORS)], marker=marker)
    axes.set_xticks([])
    axes.set_yticks([])
    axes.set_aspect("equal", adjustable="datalim")
