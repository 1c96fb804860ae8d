"""Chart of the choice of k: positions, ticks and marks."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest

from cgmcr2.consensus.choose_k import decide
from cgmcr2.report.choice import MIN_TICK_DISTANCE, choice_chart, linear_ticks, log_ticks
from cgmcr2.report.curves import HEIGHT, WIDTH

CHOICE: dict[str, Any] = {
    "candidates": [2, 3, 4, 8],
    "scores": [0.1, 0.9, 0.2, 0.5],
    "chosen": 3,
    "runners_up": [8],
    "verdict": "3 clusters fit best.",
}


def test_marks_are_on_the_line() -> None:
    chart = choice_chart(CHOICE)
    assert chart is not None
    chosen, alternative = chart.marks
    assert (chosen.k, chosen.chosen, chosen.y) == (3, True, 0)  # the best score is at the top
    assert alternative == (WIDTH, HEIGHT / 2, 8, False)
    assert chart.alternatives == "8"
    for mark in chart.marks:
        assert f"{mark.x:.1f} {mark.y:.1f}" in chart.path


def test_ticks_are_where_their_values_are() -> None:
    chart = choice_chart(CHOICE)
    assert chart is not None
    k = [int(tick.label) for tick in chart.k_ticks]
    assert k[0] == 2
    assert k[-1] == 8
    for tick in chart.k_ticks:
        assert tick.position == pytest.approx(WIDTH * math.log(int(tick.label) / 2) / math.log(4), abs=0.06)
    assert [tick.label for tick in chart.score_ticks] == ["0.2", "0.4", "0.6", "0.8"]
    for tick in chart.score_ticks:
        assert tick.position == pytest.approx(HEIGHT * (0.9 - float(tick.label)) / 0.8, abs=0.06)


@pytest.mark.parametrize(("first", "last"), [(2, 2), (2, 3), (2, 9), (2, 92), (5, 1000), (2, 31_000)])
def test_labels_of_k_do_not_overlap(first: int, last: int) -> None:
    ticks = log_ticks(first, last)
    assert ticks[0] == first
    assert ticks[-1] == last
    span = math.log(last / first) or 1.0
    gaps = [WIDTH * math.log(b / a) / span for a, b in itertools.pairwise(ticks)]
    assert all(gap >= MIN_TICK_DISTANCE for gap in gaps)


@pytest.mark.parametrize(("low", "high"), [(0, 1), (-3.1, -2.9), (0.5, 0.50001), (-7, 930), (0.15, 0.9)])
def test_scores_have_a_few_round_ticks(low: float, high: float) -> None:
    ticks = linear_ticks(low, high)
    assert 2 <= len(ticks) <= 6
    assert all(low <= tick <= high for tick in ticks)


def test_equal_scores_and_one_candidate() -> None:
    assert linear_ticks(0.3, 0.3) == [0.3]
    chart = choice_chart({**CHOICE, "candidates": [2], "scores": [0.3], "chosen": 2, "runners_up": []})
    assert chart is not None
    assert chart.marks == [(WIDTH / 2, HEIGHT / 2, 2, True)]
    assert choice_chart(None) is None


def test_chart_accepts_a_choice() -> None:
    choice = decide([2, 3, 4, 5, 6], scores=[0.2, 0.4, 0.9, 0.6, 0.5])
    chart = choice_chart(vars(choice))
    assert chart is not None
    assert [mark.k for mark in chart.marks if mark.chosen] == [4]
