"""Chart of the scores that the number of clusters was chosen by."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cgmcr2.report.curves import HEIGHT, WIDTH, svg_path

MIN_TICK_DISTANCE = 22  # in SVG units; closer labels of k would overlap


class Tick(NamedTuple):
    """A labelled position on an axis, in SVG units."""

    position: float
    label: str


class Mark(NamedTuple):
    """The chosen number of clusters or an alternative, at its point of the line."""

    x: float
    y: float
    k: int
    chosen: bool


class ChoiceChart(NamedTuple):
    """Scores over the number of clusters k in a WIDTH x HEIGHT box; the axis of k is logarithmic."""

    verdict: str
    noise: bool
    alternatives: str
    path: str
    k_ticks: list[Tick]
    score_ticks: list[Tick]
    marks: list[Mark]


def choice_chart(choice: Mapping[str, Any] | None) -> ChoiceChart | None:
    """Return the chart of a :class:`~cgmcr2.consensus.choose_k.Choice` (as a mapping), or None if k was given."""
    if choice is None:
        return None
    candidates, scores, chosen = choice["candidates"], choice["scores"], choice["chosen"]
    first, last, low, high = candidates[0], candidates[-1], min(scores), max(scores)
    x = _scale(np.log(candidates), math.log(first), math.log(last), WIDTH)
    y = HEIGHT - _scale(scores, low, high, HEIGHT)
    k_ticks, score_ticks = log_ticks(first, last), linear_ticks(low, high)
    tick_x = _scale(np.log(k_ticks), math.log(first), math.log(last), WIDTH)
    tick_y = HEIGHT - _scale(score_ticks, low, high, HEIGHT)
    return ChoiceChart(
        verdict=choice["verdict"],
        noise=choice.get("noise", False),
        alternatives=", ".join(map(str, choice["runners_up"])),
        path=svg_path(x, y),
        k_ticks=[Tick(round(a, 1), f"{k:,}") for a, k in zip(tick_x.tolist(), k_ticks, strict=True)],
        score_ticks=[
            Tick(round(b, 1), format(score, "g")) for b, score in zip(tick_y.tolist(), score_ticks, strict=True)
        ],
        marks=[
            Mark(round(a, 1), round(b, 1), k, k == chosen)
            for a, b, k in zip(x.tolist(), y.tolist(), candidates, strict=True)
            if k == chosen or k in choice["runners_up"]
        ],
    )


def log_ticks(first: int, last: int) -> list[int]:
    """Numbers to label on a logarithmic axis: both ends, then round numbers where they fit.

    >>> log_ticks(2, 60)
    [2, 3, 5, 7, 10, 20, 30, 40, 60]
    """
    span = math.log(last / first) or 1.0
    powers = [10**exponent for exponent in range(len(str(last)))]
    round_numbers = [digit * power for digit in (1, 2, 5, 3, 4, 6, 7, 8, 9) for power in powers]
    ticks: list[int] = []
    for k in dict.fromkeys([first, last, *round_numbers]):
        if first <= k <= last and all(WIDTH * abs(math.log(k / other)) / span >= MIN_TICK_DISTANCE for other in ticks):
            ticks.append(k)
    return sorted(ticks)


def linear_ticks(low: float, high: float) -> list[float]:
    """Two to five multiples of 1, 2 or 5 times a power of ten from ``low`` to ``high``; ``low`` if they are equal.

    >>> linear_ticks(0.13, 0.92)
    [0.2, 0.4, 0.6, 0.8]
    """
    if not high > low:
        return [low]
    power = 10.0 ** math.floor(math.log10(high - low))
    step = next(step for factor in (0.2, 0.5, 1.0, 2.0) if (high - low) / (step := factor * power) <= 5)
    return [round(i * step, 10) for i in range(math.ceil(low / step), math.floor(high / step) + 1)]


def _scale(values: ArrayLike, low: float, high: float, length: float) -> NDArray[np.float64]:
    """Map low ... high to 0 ... length; to the centre if low and high are equal."""
    array = np.asarray(values, dtype=np.float64)
    return length * (array - low) / (high - low) if high > low else np.full(array.shape, length / 2)
