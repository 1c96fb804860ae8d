from __future__ import annotations

import numpy as np
import pytest

from cgmcr2.experiments.figures.curves import Curves, draw_learning_curves, draw_score_curves, draw_term_curves


@pytest.fixture
def curves() -> Curves:
    """Four epochs of three steps, the first two of warm-up."""
    terms = {"R": np.arange(12) + 1.0, "Rc": np.arange(12) / 2, "Lncut": 9.0 - np.arange(12)}
    scores = {"acc": np.linspace(0.2, 0.8, 4), "nmi": np.linspace(0.1, 0.7, 4)}
    return Curves({name: list(values) for name, values in terms.items()}, scores, 3, 6)


def test_terms_are_drawn_by_step_and_scores_by_epoch(curves: Curves) -> None:
    figure = draw_learning_curves("CIFAR-20", curves)
    lines = {str(line.get_label()): line for axes in figure.axes for line in axes.get_lines()}
    np.testing.assert_allclose(lines["ACC"].get_xydata(), [[1, 20], [2, 40], [3, 60], [4, 80]])
    assert lines["$R_c$"].get_xdata()[0] == pytest.approx(7 / 3)  # the first step of fine-tuning
    assert lines["$R$"].get_xdata()[-1] == pytest.approx(4)


def test_one_panel_per_data_set(curves: Curves) -> None:
    panels = {str(i): curves for i in range(4)}
    assert len(draw_term_curves(panels).legends[0].get_texts()) == 3
    assert sum(axes.get_visible() for axes in draw_score_curves(panels).axes) == 4
