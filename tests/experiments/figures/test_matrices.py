from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cgmcr2.experiments.figures.matrices import (
    Snapshot,
    co_membership,
    draw_similarity_by_dataset,
    draw_similarity_over_time,
    similarity,
)

LABELS = np.array([2, 0, 1, 0, 2, 1, 1, 0])
ONE_HOT = np.eye(3)[LABELS]
SNAPSHOT = Snapshot(5, ONE_HOT, ONE_HOT, 0.977)
BLOCKS = np.sort(LABELS)[:, None] == np.sort(LABELS)[None, :]  # orthogonal classes, ordered by label


def matrices(figure: Any) -> list[np.ndarray]:
    arrays = [np.asarray(axes.images[0].get_array()) for axes in figure.axes if axes.images]
    return [array for array in arrays if array.shape == BLOCKS.shape]


def test_matrices_over_time_are_ordered_by_label() -> None:
    figure = draw_similarity_over_time(2 * ONE_HOT, [SNAPSHOT, SNAPSHOT], LABELS)
    shown = matrices(figure)
    assert len(shown) == 5  # X, and Z above Pi after two epochs
    for matrix in shown:
        np.testing.assert_allclose(matrix, BLOCKS, atol=1e-6)
    titles = [axes.get_title() for axes in figure.axes]
    assert sum("epoch 5\n(97.7 %)" in title for title in titles) == 2


def test_one_column_per_data_set() -> None:
    figure = draw_similarity_by_dataset({"A": (ONE_HOT, SNAPSHOT, LABELS), "B": (ONE_HOT, SNAPSHOT, LABELS)})
    shown = matrices(figure)
    assert len(shown) == 6
    np.testing.assert_allclose(shown[5], BLOCKS, atol=1e-6)


def test_memberships_are_not_scaled_to_unit_length() -> None:
    uncertain = np.full((2, 4), 0.25)
    assert co_membership(uncertain, np.arange(2)) == pytest.approx(0.25)
    assert similarity(uncertain, np.arange(2)) == pytest.approx(1)
