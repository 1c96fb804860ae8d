"""Similarity matrices of features, embeddings and memberships, with the rows ordered by label."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from cgmcr2._arrays import unit_rows
from cgmcr2.experiments.plotting import new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Float = npt.NDArray[np.floating[Any]]
Int = npt.NDArray[np.integer[Any]]

COLORMAPS = {"X": "Blues", "Z": "Blues", "Pi": "Oranges"}  # sequential, so that they are readable in greyscale
SYMBOLS = {"X": "$|XX^\\top|$", "Z": "$|ZZ^\\top|$", "Pi": "$|\\Pi\\Pi^\\top|$"}


@dataclasses.dataclass
class Snapshot:
    """Outputs of the network for m rows after an epoch, ``Z (m, d)`` and ``Pi (m, k)``, and the test accuracy."""

    epoch: int
    Z: Float
    Pi: Float
    acc: float


def similarity(rows: Float, order: Int) -> Float:
    """Absolute cosine similarity (m, m) of all pairs of rows (m, D), in the given order.

    >>> similarity(np.array([[1.0, 0.0], [0.0, 2.0], [-3.0, 0.0]]), np.array([0, 2, 1]))
    array([[1., 1., 0.],
           [1., 1., 0.],
           [0., 0., 1.]], dtype=float32)
    """
    unit = unit_rows(np.asarray(rows, dtype=np.float32)[order])
    return np.asarray(np.abs(unit @ unit.T))


def co_membership(Pi: Float, order: Int) -> Float:
    """``|Pi Pi'|`` (m, m) of memberships ``Pi (m, k)``, in the given order."""
    sorted_rows = np.asarray(Pi, dtype=np.float32)[order]
    return np.asarray(np.abs(sorted_rows @ sorted_rows.T))


def draw_similarity_over_time(X: Float, snapshots: Sequence[Snapshot], labels: Int, *, features: str = "X") -> Figure:
    """Draw ``|XX'|`` of the features (left), and ``|ZZ'|`` and ``|Pi Pi'|`` of each snapshot with its accuracy (right).

    Rows are ordered by ``labels (m,)``.
    """
    order = np.argsort(labels, kind="stable")
    columns = len(snapshots)
    figure = new_figure(2.4 + 1.75 * columns, 3.9)
    grid = figure.add_gridspec(2, columns + 2, width_ratios=[1.35, *[1] * columns, 0.05])
    left = figure.add_subplot(grid[:, 0])
    image = _show_matrix(left, similarity(X, order), "X")
    left.set_title(f"{features}\n{SYMBOLS['X']}")
    rows = [[figure.add_subplot(grid[row, 1 + column]) for column in range(columns)] for row in (0, 1)]
    for column, snapshot in enumerate(snapshots):
        top, bottom = rows[0][column], rows[1][column]
        image = _show_matrix(top, similarity(snapshot.Z, order), "Z")
        memberships = _show_matrix(bottom, co_membership(snapshot.Pi, order), "Pi")
        top.set_title(f"epoch {snapshot.epoch}\n({100 * snapshot.acc:.1f} %)")
    for row, kind in enumerate(("Z", "Pi")):
        rows[row][0].set_ylabel(SYMBOLS[kind])
        figure.colorbar((image, memberships)[row], cax=figure.add_subplot(grid[row, -1]), ticks=[0, 0.5, 1])
    return figure


def draw_similarity_by_dataset(
    panels: Mapping[str, tuple[Float, Snapshot, Int]], *, features: str = "Features"
) -> Figure:
    """Draw the similarities of features, ``Z`` and ``Pi``, one column per data set, with rows ordered by label.

    ``panels[name]`` are the features, the snapshot and the labels of a data set.
    """
    figure = new_figure(0.9 + 2.3 * len(panels), 6.9)
    grid = figure.add_gridspec(3, len(panels) + 1, width_ratios=[*[1] * len(panels), 0.05])
    for column, (name, (X, snapshot, labels)) in enumerate(panels.items()):
        order = np.argsort(labels, kind="stable")
        matrices = {
            "X": similarity(X, order),
            "Z": similarity(snapshot.Z, order),
            "Pi": co_membership(snapshot.Pi, order),
        }
        for row, (kind, matrix) in enumerate(matrices.items()):
            axes = figure.add_subplot(grid[row, column])
            image = _show_matrix(axes, matrix, kind)
            if row == 0:
                axes.set_title(name)
            if column == 0:
                axes.set_ylabel(f"{features}  {SYMBOLS[kind]}" if kind == "X" else SYMBOLS[kind])
            if column == len(panels) - 1:
                figure.colorbar(image, cax=figure.add_subplot(grid[row, -1]), ticks=[0, 0.5, 1])
    return figure


def _show_matrix(axes: Axes, matrix: Float, kind: str) -> Any:
    image = axes.imshow(matrix, cmap=COLORMAPS[kind], vmin=0, vmax=1, interpolation="antialiased")
    axes.set_xticks([])
    axes.set_yticks([])
    return image
