"""Training curves are to scale and cope with gaps in the metrics."""

from __future__ import annotations

import math
import re

from cgmcr2.report.curves import HEIGHT, MAX_POINTS, WIDTH, curves


def points(path: str) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in re.findall(r"([\d.]+) ([\d.]+)", path)]


def test_a_line_goes_from_corner_to_corner() -> None:
    (curve,) = curves([{"step": step, "loss": 10.0 - step} for step in range(5)])
    assert points(curve.path) == [(WIDTH * i / 4, HEIGHT * i / 4) for i in range(5)]
    assert (curve.first, curve.last, curve.low, curve.high) == ("10", "6", "6", "10")


def test_stages_are_marked_at_their_first_step() -> None:
    metrics = [{"step": s, "stage": "warm-up" if s < 4 else "fine-tuning", "loss": float(s)} for s in range(11)]
    (curve,) = curves(metrics)
    assert curve.stages == [(0.0, "warm-up"), (WIDTH * 0.4, "fine-tuning")]


def test_titled_quantities_come_first_and_counters_are_left_out() -> None:
    metrics = [
        {"step": s, "epoch": s, "finite": True, "extra_term": s, "lr": s, "loss": s, "name": "x"} for s in range(3)
    ]
    assert [curve.title for curve in curves(metrics)] == ["Loss", "Learning rate", "extra term"]


def test_too_many_stages_are_not_labelled() -> None:
    (curve,) = curves([{"step": s, "stage": f"stage {s}", "loss": float(s)} for s in range(8)])
    assert curve.stages == []


def test_gaps_and_lists() -> None:
    metrics = [
        {"step": 0, "loss": 1.0, "live_clusters": [2, 3]},
        {"step": 1, "loss": math.nan, "live_clusters": []},
        {"step": 2, "loss": None, "live_clusters": [9, 10]},
        {"step": 3, "loss": 3.0},
        {"step": 4, "loss": math.inf},
    ]
    loss, live = curves(metrics)
    assert (loss.last, loss.high) == ("3", "3")
    assert (live.first, live.last) == ("3", "10")


def test_long_runs_are_drawn_with_a_bounded_number_of_points() -> None:
    (curve,) = curves([{"step": step, "loss": math.sin(step / 1000)} for step in range(20_000)])
    assert len(points(curve.path)) == MAX_POINTS


def test_constant_and_empty_metrics() -> None:
    (curve,) = curves([{"step": step, "loss": 2.0} for step in range(3)])
    assert {y for _, y in points(curve.path)} == {HEIGHT / 2}
    assert curves([]) == []
    assert curves([{"step": 0, "loss": 1.0}]) == []
