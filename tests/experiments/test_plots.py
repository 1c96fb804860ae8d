"""The pictures hold what they are said to hold, in the right order, and are saved as PNG and PDF."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from cgmcr2.experiments import plots as figures
from cgmcr2.experiments.plots import Curves, Snapshot

LABELS = np.array([2, 0, 1, 0, 2, 1, 1, 0])
ONE_HOT = np.eye(3)[LABELS]
SNAPSHOT = Snapshot(5, ONE_HOT, ONE_HOT, 0.977)
BLOCKS = np.sort(LABELS)[:, None] == np.sort(LABELS)[None, :]  # what orthogonal classes look like, ordered by label


def curves(epochs: int = 4) -> Curves:
    steps = 3 * epochs
    terms = {"R": np.arange(steps) + 1.0, "Rc": np.arange(steps) / 2, "Lncut": 9.0 - np.arange(steps)}
    scores = {"acc": np.linspace(0.2, 0.8, epochs), "nmi": np.linspace(0.1, 0.7, epochs)}
    return Curves({name: list(values) for name, values in terms.items()}, scores, 3, 6)


def matrices(figure: Any) -> list[np.ndarray]:
    return [
        np.asarray(axes.images[0].get_array())
        for axes in figure.axes
        if axes.images and axes.get_label() != "<colorbar>"
    ]


def test_matrices_over_time_are_ordered_by_label() -> None:
    figure = figures.similarity_over_time(2 * ONE_HOT, [SNAPSHOT, SNAPSHOT], LABELS)
    found = [matrix for matrix in matrices(figure) if matrix.shape == BLOCKS.shape]
    assert len(found) == 5  # X, and Z over Pi at two moments
    for matrix in found:
        np.testing.assert_allclose(matrix, BLOCKS, atol=1e-6)
    titles = [axes.get_title() for axes in figure.axes]
    assert sum("epoch 5\n(97.7 %)" in title for title in titles) == 2


def test_a_column_for_each_data_set() -> None:
    figure = figures.similarity_by_dataset({"A": (ONE_HOT, SNAPSHOT, LABELS), "B": (ONE_HOT, SNAPSHOT, LABELS)})
    found = [matrix for matrix in matrices(figure) if matrix.shape == BLOCKS.shape]
    assert len(found) == 6
    np.testing.assert_allclose(found[5], BLOCKS, atol=1e-6)


def test_memberships_are_not_scaled_to_unit_length() -> None:
    unsure = np.full((2, 4), 0.25)
    assert figures.products(unsure, np.arange(2)) == pytest.approx(0.25)
    assert figures.similarity(unsure, np.arange(2)) == pytest.approx(1)


def test_curves_say_when_and_how_much() -> None:
    figure = figures.learning_curves("CIFAR-20", curves())
    lines = {str(line.get_label()): line for axes in figure.axes for line in axes.get_lines()}
    np.testing.assert_allclose(lines["ACC"].get_xydata(), [[1, 20], [2, 40], [3, 60], [4, 80]])
    assert lines["$R_c$"].get_xdata()[0] == pytest.approx(7 / 3)  # the first step of the fine-tuning
    assert lines["$R$"].get_xdata()[-1] == pytest.approx(4)
    assert len(figures.term_curves({str(i): curves() for i in range(4)}).legends[0].get_texts()) == 3
    visible = [axes for axes in figures.score_curves({str(i): curves() for i in range(4)}).axes if axes.get_visible()]
    assert len(visible) == 4


def test_sensitivity_has_a_line_for_each_value() -> None:
    points = [
        {"eps": eps, "gamma": gamma, "acc": (60 + gamma + eps, 2.0), "nmi": (50.0, 1.0)}
        for gamma in (8, 2, 4)
        for eps in (0.5, 0.2)
    ]
    figure = figures.sensitivity({"CIFAR-10": points, "CIFAR-100": points}, "gamma", "eps")
    assert len(figure.axes) == 4
    first = figure.axes[0]
    assert [str(bars.get_label()) for bars in first.containers] == ["eps = 0.2", "eps = 0.5"]
    assert list(first.containers[0].lines[0].get_ydata()) == pytest.approx([62.2, 64.2, 68.2])
    assert [tick.get_text() for tick in figure.axes[2].get_xticklabels()] == ["2", "4", "8"]


@pytest.mark.parametrize(
    "figure",
    [
        lambda: figures.similarity_over_time(ONE_HOT, [SNAPSHOT] * 5, LABELS),
        lambda: figures.similarity_by_dataset({"A": (ONE_HOT, SNAPSHOT, LABELS)}),
        lambda: figures.learning_curves("A", curves()),
        lambda: figures.maps({"A": (ONE_HOT[:, :2], ONE_HOT[:, 1:], LABELS)}),
        lambda: figures.architecture(),
    ],
    ids=["over-time", "by-data-set", "curves", "maps", "network"],
)
def test_saved_as_png_and_pdf(figure: Any, tmp_path: Path) -> None:
    drawn = figures.footnote(figure(), "fitted on split 0 (4 rows), predicted split 1 (4 rows)")
    png, pdf = figures.save_figure(drawn, tmp_path / "figure-b.1")
    assert (png.name, pdf.name) == ("figure-b.1.png", "figure-b.1.pdf")
    assert pdf.read_bytes()[:5] == b"%PDF-"
    with Image.open(png) as image:
        pixels = np.asarray(image.convert("L"), dtype=float)
        assert image.size == tuple(round(figures.DPI * side) for side in drawn.get_size_inches())
    assert pixels.std() > 5
    for edge in (pixels[0], pixels[-1], pixels[:, 0], pixels[:, -1]):  # nothing is cut off
        assert edge.min() > 200


def test_without_matplotlib_a_sentence_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match="Figures need matplotlib; install it with: pip install 'cgmcr2\\[viz\\]'"):
        figures.architecture()
