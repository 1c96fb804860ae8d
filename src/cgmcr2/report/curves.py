"""What training did, as small line charts in SVG."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

TITLES = {
    "loss": "Loss",
    "R": "Coding rate R",
    "Rc": "Cluster-wise rate Rc",
    "cut": "Normalized cut",
    "penalty": "Orthogonality penalty",
    "live_clusters": "Clusters in use",
    "lr": "Learning rate",
}
WIDTH, HEIGHT, POINTS = 280, 96, 240


class Curve(NamedTuple):
    """One chart: ``path`` is its line in a WIDTH x HEIGHT box as SVG; ``stages`` are (x, name) of its parts."""

    title: str
    path: str
    first: str
    last: str
    low: str
    high: str
    stages: list[tuple[float, str]]


def curves(metrics: Sequence[Mapping[str, Any]], most: int = 12) -> list[Curve]:
    """A chart for every quantity that changes, those of ``TITLES`` first.

    >>> [curve.title for curve in curves([{"step": 0, "loss": 2.0, "R": 1.0}, {"step": 1, "loss": 1.5, "R": 3.0}])]
    ['Loss', 'Coding rate R']
    """
    keys = dict.fromkeys([*TITLES, *(key for line in metrics for key in line)])
    drawn = [curve for key in keys if key not in ("step", "epoch", "stage") and (curve := _curve(metrics, key))]
    return drawn[:most]


def _curve(metrics: Sequence[Mapping[str, Any]], key: str) -> Curve | None:
    lines = [line for line in metrics if _number(line.get(key)) is not None]
    if len(lines) < 2:
        return None
    steps = np.array([line.get("step", i) for i, line in enumerate(lines)], dtype=float)
    values = np.array([_number(line[key]) for line in lines], dtype=float)
    low, high = float(values.min()), float(values.max())
    start, span = float(steps.min()), float(np.ptp(steps)) or 1.0
    parts = np.array_split(np.arange(len(lines)), min(POINTS, len(lines)))  # a mean for each part of a long run
    points = [
        (
            WIDTH * (steps[part].mean() - start) / span,
            HEIGHT * (1 - (values[part].mean() - low) / ((high - low) or 1.0)) if high > low else HEIGHT / 2,
        )
        for part in parts
    ]
    path = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
    stages = [(0.0, str(lines[0].get("stage", "")))] + [
        (WIDTH * (steps[i] - start) / span, str(lines[i]["stage"]))
        for i in range(1, len(lines))
        if "stage" in lines[i] and lines[i]["stage"] != lines[i - 1].get("stage")
    ]
    first, last, least, most = (format(value, ".4g") for value in (values[0], values[-1], low, high))
    title = TITLES.get(key, key.replace("_", " "))
    return Curve(title, path, first, last, least, most, stages if len(stages) <= 6 else [])


def _number(value: object) -> float | None:
    """The value if it can be drawn; of several (one for each head) the largest."""
    if isinstance(value, list):
        return max((number for item in value if (number := _number(item)) is not None), default=None)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)
