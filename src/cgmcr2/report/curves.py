"""Training curves as small SVG line charts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

TITLES = {
    "loss": "Loss",
    "R": "Coding rate R",
    "Rc": "Cluster-wise coding rate Rc",
    "cut": "Normalized cut",
    "penalty": "Orthogonality penalty",
    "consensus": "Cross-entropy to the consensus",
    "live_clusters": "Live clusters",
    "balance": "Cluster balance",
    "lr": "Learning rate",
}
COUNTERS = ("step", "epoch", "stage")  # not drawn
WIDTH, HEIGHT = 280, 96  # of a chart, in SVG units
MAX_POINTS = 240  # of a line; longer runs are averaged to this many
MAX_STAGES = 6  # more stage labels would overlap, and are left out


class Curve(NamedTuple):
    """One chart: ``path`` is an SVG path in a WIDTH x HEIGHT box, ``stages`` the (x, name) at which stages begin."""

    title: str
    path: str
    first: str
    last: str
    low: str
    high: str
    stages: list[tuple[float, str]]


def curves(metrics: Sequence[Mapping[str, Any]], max_curves: int = 12) -> list[Curve]:
    """Return one chart per logged quantity, those of ``TITLES`` first.

    >>> [curve.title for curve in curves([{"step": 0, "loss": 2.0, "R": 1.0}, {"step": 1, "loss": 1.5, "R": 3.0}])]
    ['Loss', 'Coding rate R']
    """
    keys = dict.fromkeys([*TITLES, *(key for line in metrics for key in line)])
    charts = [curve for key in keys if key not in COUNTERS and (curve := _curve(metrics, key))]
    return charts[:max_curves]


def svg_path(x: NDArray[np.float64], y: NDArray[np.float64]) -> str:
    """Polyline through the points (x, y), in SVG units.

    >>> svg_path(np.array([0.0, 10.0]), np.array([5.0, 0.0]))
    'M0.0 5.0L10.0 0.0'
    """
    return "M" + "L".join(f"{a:.1f} {b:.1f}" for a, b in zip(x, y, strict=True))


def _curve(metrics: Sequence[Mapping[str, Any]], key: str) -> Curve | None:
    lines = [line for line in metrics if _number(line.get(key)) is not None]
    if len(lines) < 2:
        return None
    steps = np.array([line.get("step", i) for i, line in enumerate(lines)], dtype=float)
    values = np.array([_number(line[key]) for line in lines], dtype=float)
    low, high = float(values.min()), float(values.max())
    all_x = WIDTH * (steps - steps.min()) / (float(np.ptp(steps)) or 1.0)
    bins = np.array_split(np.arange(len(lines)), min(MAX_POINTS, len(lines)))
    x = np.array([all_x[rows].mean() for rows in bins])
    y = np.full(len(bins), HEIGHT / 2)
    if high > low:
        y = HEIGHT * (1 - (np.array([values[rows].mean() for rows in bins]) - low) / (high - low))
    first, last, lowest, highest = (format(value, ".4g") for value in (values[0], values[-1], low, high))
    title = TITLES.get(key, key.replace("_", " "))
    return Curve(title, svg_path(x, y), first, last, lowest, highest, _stages(lines, all_x))


def _stages(lines: Sequence[Mapping[str, Any]], x: NDArray[np.float64]) -> list[tuple[float, str]]:
    """(x, name) of the first line of every stage; empty if there are too many to label."""
    names = [line.get("stage") for line in lines]
    changes = [i for i in range(1, len(lines)) if names[i] is not None and names[i] != names[i - 1]]
    stages = [(0.0, str(names[0] or "")), *((float(x[i]), str(names[i])) for i in changes)]
    return stages if len(stages) <= MAX_STAGES else []


def _number(value: object) -> float | None:
    """``value`` as a finite float, the largest entry of a list (one per head), or None if it cannot be drawn."""
    if isinstance(value, list):
        return max((number for item in value if (number := _number(item)) is not None), default=None)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)
