"""The paper's pictures from plain arrays: similarity matrices, learning curves, maps, sensitivity. Colour-blind safe.

Every function returns a matplotlib ``Figure``; ``save_figure`` writes it as PNG and PDF. Labels order and judge only.
"""

from __future__ import annotations

import dataclasses
import textwrap
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from cgmcr2._files import replacing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

Float = npt.NDArray[np.floating[Any]]
Int = npt.NDArray[np.integer[Any]]

# Okabe and Ito's colours, told apart with every kind of colour vision; grey for yellow, which is too light on white
BLUE, ORANGE, GREEN, VERMILLION, PURPLE, SKY = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9"
COLORS = (BLUE, VERMILLION, GREEN, ORANGE, PURPLE, SKY, "#000000", "#999999")
MARKERS = "os^Dv<>Pp*XhH"
SHADES = {"X": "Blues", "Z": "Blues", "Pi": "Oranges"}  # one hue, ever darker: readable in grey too
NAMES = {"X": "$|XX^\\top|$", "Z": "$|ZZ^\\top|$", "Pi": "$|\\Pi\\Pi^\\top|$"}
DPI = 200


@dataclasses.dataclass
class Snapshot:
    """A network's answer for m rows at one moment: ``Z (m, d)``, ``Pi (m, k)``, and the accuracy of all rows judged."""

    epoch: int
    Z: Float
    Pi: Float
    acc: float


@dataclasses.dataclass
class Curves:
    """A training as it went: ``terms[name]`` of each step, ``scores[name]`` after each epoch, in 0 ... 1."""

    terms: Mapping[str, Sequence[float]]
    scores: Mapping[str, Sequence[float]]
    steps_per_epoch: int
    warmup_steps: int


def similarity(rows: Float, order: Int) -> Float:
    """|cosine| between all rows (m, D), in the given order -> (m, m).

    >>> similarity(np.array([[1.0, 0.0], [0.0, 2.0], [-3.0, 0.0]]), np.array([0, 2, 1]))
    array([[1., 1., 0.],
           [1., 1., 0.],
           [0., 0., 1.]], dtype=float32)
    """
    sorted_rows = np.asarray(rows, dtype=np.float32)[order]
    unit = sorted_rows / np.maximum(np.linalg.norm(sorted_rows, axis=1, keepdims=True), 1e-12)
    return np.asarray(np.abs(unit @ unit.T))


def products(Pi: Float, order: Int) -> Float:
    """``|Pi Pi'|`` of memberships (m, k), in the given order -> (m, m): 1 where two rows are surely together."""
    sorted_rows = np.asarray(Pi, dtype=np.float32)[order]
    return np.asarray(np.abs(sorted_rows @ sorted_rows.T))


def similarity_over_time(X: Float, snapshots: Sequence[Snapshot], labels: Int, *, features: str = "X") -> Figure:
    """Left ``|XX'|`` of the features; right ``|ZZ'|`` over ``|Pi Pi'|`` at each moment, with its accuracy.

    Rows are ordered by ``labels (m,)``.
    """
    order = np.argsort(labels, kind="stable")
    columns = len(snapshots)
    figure = _figure(2.4 + 1.75 * columns, 3.9)
    grid = figure.add_gridspec(2, columns + 2, width_ratios=[1.35, *[1] * columns, 0.05])
    left = figure.add_subplot(grid[:, 0])
    image = _matrix(left, similarity(X, order), "X")
    left.set_title(f"{features}\n{NAMES['X']}")
    rows = [[figure.add_subplot(grid[row, 1 + column]) for column in range(columns)] for row in (0, 1)]
    for column, snapshot in enumerate(snapshots):
        top, below = rows[0][column], rows[1][column]
        image = _matrix(top, similarity(snapshot.Z, order), "Z")
        memberships = _matrix(below, products(snapshot.Pi, order), "Pi")
        top.set_title(f"epoch {snapshot.epoch}\n({100 * snapshot.acc:.1f} %)")
    for row, name in enumerate(("Z", "Pi")):
        rows[row][0].set_ylabel(NAMES[name])
        figure.colorbar((image, memberships)[row], cax=figure.add_subplot(grid[row, -1]), ticks=[0, 0.5, 1])
    return figure


def similarity_by_dataset(panels: Mapping[str, tuple[Float, Snapshot, Int]], *, features: str = "Features") -> Figure:
    """A column a data set (``name: (X, snapshot, labels)``), ordered by label: the features, ``Z``, ``Pi``."""
    figure = _figure(0.9 + 2.3 * len(panels), 6.9)
    grid = figure.add_gridspec(3, len(panels) + 1, width_ratios=[*[1] * len(panels), 0.05])
    for column, (name, (X, snapshot, labels)) in enumerate(panels.items()):
        order = np.argsort(labels, kind="stable")
        matrices = {"X": similarity(X, order), "Z": similarity(snapshot.Z, order), "Pi": products(snapshot.Pi, order)}
        for row, (kind, matrix) in enumerate(matrices.items()):
            axes = figure.add_subplot(grid[row, column])
            image = _matrix(axes, matrix, kind)
            if row == 0:
                axes.set_title(name)
            if column == 0:
                axes.set_ylabel(f"{features}  {NAMES[kind]}" if kind == "X" else NAMES[kind])
            if column == len(panels) - 1:
                figure.colorbar(image, cax=figure.add_subplot(grid[row, -1]), ticks=[0, 0.5, 1])
    return figure


def learning_curves(name: str, curves: Curves) -> Figure:
    """Two panels side by side: (a) every term of the objective, (b) ACC and NMI."""
    figure = _figure(9, 3.6)
    left, right = figure.subplots(1, 2)
    handles = [*_terms(left, curves), *_scores(right, curves)]
    left.set_title(f"(a) terms on {name}")
    right.set_title(f"(b) ACC and NMI on {name}")
    _legend(figure, handles)
    return figure


def term_curves(panels: Mapping[str, Curves]) -> Figure:
    """Every term of the objective while training, a panel for each data set, three in a row."""
    return _curve_grid(panels, _terms)


def score_curves(panels: Mapping[str, Curves]) -> Figure:
    """ACC and NMI while training, a panel for each data set, three in a row."""
    return _curve_grid(panels, _scores)


def maps(panels: Mapping[str, tuple[Float, Float, Int]], *, before: str = "Features", after: str = "CgMCR²") -> Figure:
    """Maps ``(m, 2)`` before (above) and after (below), a column for each ``name: (before, after, labels)``."""
    figure = _figure(3 * len(panels), 6.2)
    axes = figure.subplots(2, len(panels), squeeze=False)
    for column, (name, (first, second, labels)) in enumerate(panels.items()):
        for row, (kind, positions) in enumerate(((before, first), (after, second))):
            _scatter(axes[row, column], positions, labels)
            axes[row, column].set_title(f"{kind}, {name}")
    return figure


def sensitivity(
    panels: Mapping[str, Sequence[Mapping[str, Any]]],
    x: str,
    lines: str,
    *,
    scores: Sequence[str] = ("acc", "nmi"),
    titles: Mapping[str, str] | None = None,
) -> Figure:
    """A column for each ``name: points``, a row for each score: mean ± std against the setting ``x``, one line for each
    value of the setting ``lines``. A point has the two settings, and each score as (mean, std) in percent."""
    title = dict(titles or {})
    figure = _figure(4.2 * len(panels) + 0.4, 2.6 * len(scores) + 0.6)
    axes = figure.subplots(len(scores), len(panels), squeeze=False, sharex="col")
    for column, (name, points) in enumerate(panels.items()):
        places = sorted({point[x] for point in points})
        groups = sorted({point[lines] for point in points})
        for row, score in enumerate(scores):
            panel = axes[row, column]
            for number, group in enumerate(groups):
                own = sorted((point for point in points if point[lines] == group), key=lambda point: point[x])
                shift = 0.06 * (number - (len(groups) - 1) / 2)  # so that error bars do not hide one another
                panel.errorbar(
                    [places.index(point[x]) + shift for point in own],  # evenly apart, whatever the values
                    [point[score][0] for point in own],
                    yerr=[point[score][1] for point in own],
                    color=COLORS[number % len(COLORS)],
                    marker=MARKERS[number % len(MARKERS)],
                    markersize=5,
                    capsize=2,
                    linewidth=1.2,
                    label=f"{title.get(lines, lines)} = {group:g}",
                )
            panel.set_ylabel(f"{score.upper()} %")
            panel.grid(alpha=0.3)
            panel.set_xticks(range(len(places)), [f"{value:g}" for value in places])
        axes[0, column].set_title(name)
        axes[-1, column].set_xlabel(title.get(x, x))
    _legend(figure, axes[0, 0].get_legend_handles_labels()[0])
    return figure


def tuning(
    ladder: Sequence[Mapping[str, Any]],
    trials: Sequence[Mapping[str, Any]],
    names: Sequence[str],
    gamma: float,
    score: str,
) -> Figure:
    """First the live clusters at each gamma of the ladder; then the ``score`` of every trial against each setting."""
    figure = _figure(3 * (1 + len(names)), 3.2)
    first, *others = figure.subplots(1, 1 + len(names))
    known = [run for run in ladder if run["live"] is not None]
    first.plot([run["gamma"] for run in known], [run["live"] for run in known], "o-", color=BLUE)
    first.axvline(gamma, color=VERMILLION, linestyle="--", label=f"{gamma:g} is taken")
    first.set_ylim(0, max((run["clusters"] for run in known), default=1) * 1.05)
    first.set_ylabel("live clusters")
    first.set_title("is $\\gamma$ feasible?")
    done = [run for run in trials if run["score"] is not None]
    best = max(done, key=lambda run: run["score"])
    for axes, name in zip(others, names, strict=True):
        style = {"color": BLUE, "marker": "o", "s": 22, "alpha": 0.8}
        axes.scatter([run[name] for run in done], [100 * run["score"] for run in done], **style)
        axes.scatter([best[name]], [100 * best["score"]], color=VERMILLION, marker="*", s=110, label="best", zorder=3)
        axes.set_xlabel(name)
    first.set_xlabel("gamma")
    for axes in (first, *others):
        _log_axis(axes)
        axes.grid(alpha=0.3)
        axes.legend(fontsize="x-small")
    others[0].set_ylabel(f"{score}, %")
    return figure


def architecture() -> Figure:
    """The network: the forward pass in black, what the gradients of Z (green) and Pi (orange) come from."""
    figure = _figure(9, 3.6)
    axes = figure.subplots()
    axes.set_xlim(0, 18)
    axes.set_ylim(0, 7)
    axes.set_axis_off()
    boxes = {
        "X": (1.2, 3.5, "features\n$X$", "0.92"),
        "pre": (4.2, 3.5, "pre-feature layer\nLinear-BN-ReLU", "0.92"),
        "f": (8.2, 5.6, "feature head $f(\\cdot;\\Theta)$\nLinear-ReLU-Linear", "#CFE8DF"),
        "g": (8.2, 1.4, "cluster head $g(\\cdot;\\Phi)$\nLinear-ReLU-Linear", "#FBE6C2"),
        "Z": (11.9, 5.6, "$Z$", "#CFE8DF"),
        "Pi": (11.9, 1.4, "$\\Pi$", "#FBE6C2"),
        "R": (15.8, 6.3, "$-R(Z;\\epsilon)$", "white"),
        "Rc": (15.8, 3.5, "$R_c(Z,\\Pi;\\epsilon)$", "white"),
        "cut": (15.8, 0.7, "$L_{\\mathrm{Ncut}}(\\Pi;A,\\gamma)$", "white"),
        "A": (11.9, 3.5, "$A=P_s(ZZ^\\top)$\ndetached", "0.92"),
    }
    half = {}
    for name, (x, y, text, color) in boxes.items():
        style = {"boxstyle": "round,pad=0.4", "facecolor": color, "edgecolor": "0.3"}
        half[name] = axes.text(x, y, text, ha="center", va="center", fontsize=9, bbox=style)
    forward = ["X pre", "pre f", "pre g", "f Z", "g Pi", "Z R", "Z Rc", "Pi Rc", "Z A", "A cut", "Pi cut"]
    backward = {GREEN: ["R Z", "Rc Z", "Z f"], ORANGE: ["cut Pi", "Rc Pi", "Pi g"]}
    for color, pairs in {"black": forward, **backward}.items():
        for pair in pairs:
            start, end = (half[name] for name in pair.split())
            bend = "arc3,rad=0" if color == "black" else "arc3,rad=0.22"
            arrow = {"arrowstyle": "-|>", "color": color, "connectionstyle": bend, "linewidth": 1.2}
            arrow |= {"patchA": start.get_bbox_patch(), "patchB": end.get_bbox_patch(), "shrinkA": 2, "shrinkB": 2}
            if color != "black":
                arrow["linestyle"] = "--"
            axes.annotate("", end.get_position(), start.get_position(), arrowprops=arrow)
    for place, (color, label) in enumerate(
        (("black", "forward"), (GREEN, "gradient of $Z$"), (ORANGE, "gradient of $\\Pi$"))
    ):
        axes.plot([], [], color=color, linestyle="-" if place == 0 else "--", label=label)
    axes.legend(loc="lower left", frameon=False, fontsize=9)
    return figure


def footnote(figure: Figure, text: str) -> Figure:
    """The figure with a line in small print below it: what its numbers are of."""
    width = int(figure.get_figwidth() * 17)  # characters that fit
    figure.supxlabel("\n".join(textwrap.wrap(text, width)), fontsize=7, color="0.35")
    return figure


def save_figure(figure: Figure, stem: Path) -> list[Path]:
    """Write ``STEM.png`` and ``STEM.pdf``."""
    paths = [stem.with_name(stem.name + suffix) for suffix in (".png", ".pdf")]
    for path in paths:
        with replacing(path) as temporary:
            figure.savefig(temporary, dpi=DPI)
    return paths


def need_matplotlib() -> None:
    """Say what to install where there is no matplotlib."""
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise ImportError("Figures need matplotlib; install it with: pip install 'cgmcr2[viz]'") from error


def _figure(width: float, height: float) -> Figure:
    need_matplotlib()
    from matplotlib.figure import Figure

    return Figure((width, height), layout="constrained")


def _curve_grid(panels: Mapping[str, Curves], draw: Callable[[Axes, Curves], list[Line2D]]) -> Figure:
    columns = min(3, len(panels))
    rows = -(-len(panels) // columns)
    figure = _figure(3.9 * columns, 2.7 * rows + 0.4)
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    for empty in axes[len(panels) :]:
        empty.set_visible(False)
    handles: list[Line2D] = []
    for place, (name, curves) in zip(axes, panels.items(), strict=False):
        handles = draw(place, curves)
        place.set_title(name)
    _legend(figure, handles)
    return figure


def _log_axis(axes: Axes) -> None:
    """A logarithmic axis with plain numbers."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axes.set_xscale("log")
    low, high = axes.get_xlim()
    subs = (1, 2, 3, 5, 7) if high < 12 * low else (1, 2, 5) if high < 300 * low else (1,)
    axes.xaxis.set_major_locator(LogLocator(subs=subs))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())


def _legend(figure: Figure, handles: Sequence[Any]) -> None:
    names = [str(handle.get_label()) for handle in handles]
    figure.legend(handles, names, loc="outside upper center", ncols=min(len(names), 6), frameon=False)


def _matrix(axes: Axes, matrix: Float, kind: str) -> Any:
    image = axes.imshow(matrix, cmap=SHADES[kind], vmin=0, vmax=1, interpolation="antialiased")
    axes.set_xticks([])
    axes.set_yticks([])
    return image


def _terms(axes: Axes, curves: Curves) -> list[Line2D]:
    """R and Rc on the left axis, the cut with its penalty on the right one: each step, and the mean of an epoch."""
    right = axes.twinx()
    cut = "$L_{\\mathrm{Ncut}}$"
    shown = (
        ("Lncut", f"{cut} (right axis)", GREEN, "-.", right),
        ("Rc", "$R_c$", VERMILLION, "--", axes),
        ("R", "$R$", BLUE, "-", axes),
    )
    handles = []
    for name, label, color, dashes, place in shown:
        values = np.asarray(curves.terms[name], dtype=float)
        first = curves.warmup_steps if name == "Rc" else 0  # there is none in the warm-up
        epochs = np.arange(first + 1, len(values) + 1) / curves.steps_per_epoch
        place.plot(epochs, values[first:], color=color, linewidth=0.6, alpha=0.35)
        means = _means(values[first:], curves.steps_per_epoch)
        handles += place.plot(epochs, means, color=color, linestyle=dashes, linewidth=1.5, label=label)
    right.tick_params(axis="y", colors=GREEN)
    right.set_ylabel(cut, color=GREEN)
    axes.set_ylabel("$R$, $R_c$ (nats)")
    axes.set_zorder(right.get_zorder() + 1)  # the rates lie over the cut
    axes.patch.set_visible(False)
    _stages(axes, curves)
    return handles[::-1]


def _means(values: Float, window: int) -> Float:
    """The mean of the ``window`` values around each place, of those there are at the ends.

    >>> _means(np.array([1.0, 3.0, 5.0, 7.0]), 3)
    array([2., 3., 5., 6.])
    """
    sums = np.concatenate([[0.0], np.cumsum(values)])
    places = np.arange(len(values))
    first, last = np.maximum(0, places - window // 2), np.minimum(len(values), places + window // 2 + 1)
    return np.asarray((sums[last] - sums[first]) / (last - first))


def _scores(axes: Axes, curves: Curves) -> list[Line2D]:
    handles = []
    for name, label, color, marker in (("acc", "ACC", BLUE, "o"), ("nmi", "NMI", VERMILLION, "s")):
        values = 100 * np.asarray(curves.scores[name], dtype=float)
        style: dict[str, Any] = {
            "color": color,
            "marker": marker,
            "markevery": max(1, len(values) // 10),
            "markersize": 4,
        }
        handles += axes.plot(np.arange(1, len(values) + 1), values, linewidth=1.5, label=label, **style)
    axes.set_ylabel("%")
    axes.grid(alpha=0.3)
    _stages(axes, curves)
    return handles


def _stages(axes: Axes, curves: Curves) -> None:
    """A line where fine-tuning begins."""
    axes.set_xlabel("epoch")
    total = len(curves.terms["R"])
    if 0 < curves.warmup_steps < total:
        axes.axvline(curves.warmup_steps / curves.steps_per_epoch, color="0.5", linewidth=0.8, linestyle=":")


def _scatter(axes: Axes, positions: Float, labels: Int) -> None:
    for number, label in enumerate(np.unique(labels)):
        x, y = np.asarray(positions)[np.asarray(labels) == label].T
        axes.scatter(
            x,
            y,
            s=7,
            linewidths=0,
            color=COLORS[number % len(COLORS)],
            marker=MARKERS[number // len(COLORS) % len(MARKERS)],
        )
    axes.set_xticks([])
    axes.set_yticks([])
    axes.set_aspect("equal", adjustable="datalim")
