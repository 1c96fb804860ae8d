from __future__ import annotations

import itertools

import numpy as np
import pytest

from cgmcr2.evaluation import clustering_accuracy, score_labels


def test_accuracy_is_the_maximum_over_all_matchings() -> None:
    rng = np.random.default_rng(0)
    true, pred = rng.integers(4, size=50), rng.integers(4, size=50)
    best = max(np.mean(np.array(order)[pred] == true) for order in itertools.permutations(range(4)))
    assert clustering_accuracy(true, pred) == pytest.approx(best)


def test_classes_may_be_names_and_clusters_more_than_classes() -> None:
    assert clustering_accuracy(["cat", "cat", "dog"], [3, 5, 7]) == pytest.approx(2 / 3)


def test_scores_do_not_depend_on_the_numbers_of_the_clusters() -> None:
    assert score_labels([0, 1, 2], [2, 0, 1]) == (1.0, 1.0, 1.0)
    assert str(score_labels([0, 1, 2], [2, 0, 1])) == "ACC 100.0 %  NMI 100.0 %  ARI 100.0 %"


@pytest.mark.parametrize(("true", "pred"), [([0, 1], [0]), ([], []), ([[0, 1]], [[0, 1]])])
def test_labels_of_other_shapes_are_rejected(true: list[int], pred: list[int]) -> None:
    with pytest.raises(ValueError, match=r"The true labels have shape \(.*\) and the predicted ones"):
        clustering_accuracy(true, pred)
