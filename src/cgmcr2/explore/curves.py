"""What training did, as small line charts in SVG."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
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


def read_metrics(path: str | os.PathLike[str]) -> list[dict[str, Any]]:
    """The lines of a ``metrics.jsonl``; a last line that was cut off by a crash is left out."""
    lines: list[dict[str, Any]] = []
    for line in Path(path).read_text(encoding="utf-8").splitlines():
        try:
            value = json.loads(line)
        except ValueError:
            continue
        if isinstance(value, dict):
            lines.append(value)
    return lines


def curves(metrics: Sequence[Mapping[str, Any]], most: int = 12) -> list[Curve]:
    """A chart for every quantity that changes, those of ``TITLES`` first.

    >>> [curve.title for curve in curves([{"step": 0, "loss": 2.0, "R": 1.0}, {"step": 1, "loss": 1.5, "R": 3.0}])]
    ['Loss', 'Coding rate R']
    """
    keys = dict.fromkeys([*TITLES, *(key for line in metrics for key in line)])
    drawn = [
        curve for key in keys if key not in ("step", "epoch", "stage", "seconds") and (curve := _curve(metrics, key))
    ]
    return drawn[:most]


def _curve(metrics: Sequence[Mapping[str, Any]], key: str) -> Curve | None:
    lines = [line for line in metrics if _is_number(line.get(key))]
    if len(lines) < 2:
        return None
    steps = np.array([line["step"] if _is_number(line.get("step")) else i for i, line in enumerate(lines)], dtype=float)
    values = np.array([line[key] for line in lines], dtype=float)
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


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
