from __future__ import annotations

import math
from pathlib import Path

import pytest

from cgmcr2.experiments.figures.sensitivity import draw_sensitivity, save_sensitivity, sensitivity_points
from cgmcr2.experiments.tables import TableCell, TableResult, load_table


@pytest.fixture(scope="module")
def result() -> TableResult:
    """Figure 5 with numbers that count up; the first point has no finished run."""
    table = load_table("figure-5")
    cells = [
        TableCell(row.label, name, column, 50.0 + number, 1.0, 3 if number else 0, math.nan, math.nan)
        for number, row in enumerate(table.rows)
        for name in table.datasets
        for column in table.columns
    ]
    return TableResult(table, list(table.datasets), cells, ["Ours: one seed."])


def test_points_have_the_settings_of_the_runs(result: TableResult) -> None:
    points = sensitivity_points(result, "cifar100", quick=True, settings={})
    assert len(points) == 15
    assert points[-1] == {"hidden_dim": 512, "depth": 4, "acc": (65.0, 1.0), "nmi": (65.0, 1.0)}
    assert sensitivity_points(result, "cifar100", quick=False, settings={})[-1]["hidden_dim"] == 4096
    assert sensitivity_points(result, "cifar100", quick=True, settings={"depth": 2})[-1]["depth"] == 2


def test_the_figure_is_saved_under_the_tables_name(result: TableResult, tmp_path: Path) -> None:
    paths = save_sensitivity(result, tmp_path, quick=True, dpi=50)
    assert [path.name for path in paths] == ["figure-5.png", "figure-5.pdf"]
    assert paths[1].read_bytes()[:5] == b"%PDF-"


def test_one_line_per_value_of_the_second_setting() -> None:
    points = [
        {"eps": eps, "gamma": gamma, "acc": (60 + gamma + eps, 2.0), "nmi": (50.0, 1.0)}
        for gamma in (8, 2, 4)
        for eps in (0.5, 0.2)
    ]
    figure = draw_sensitivity({"CIFAR-10": points, "CIFAR-100": points}, "gamma", "eps")
    assert len(figure.axes) == 4
    first = figure.axes[0]
    assert [str(bars.get_label()) for bars in first.containers] == ["$\\epsilon$ = 0.2", "$\\epsilon$ = 0.5"]
    assert list(first.containers[0].lines[0].get_ydata()) == pytest.approx([62.2, 64.2, 68.2])
    assert [tick.get_text() for tick in figure.axes[2].get_xticklabels()] == ["2", "4", "8"]
