from __future__ import annotations

import itertools

import numpy as np
import pytest

from cgmcr2.evaluation import Protocol, clustering_accuracy, score_labels


def test_accuracy_is_the_best_over_all_matchings() -> None:
    random = np.random.default_rng(0)
    true, pred = random.integers(4, size=50), random.integers(4, size=50)
    best = max(np.mean(np.array(order)[pred] == true) for order in itertools.permutations(range(4)))
    assert clustering_accuracy(true, pred) == pytest.approx(best)


def test_names_as_classes_and_more_clusters_than_classes() -> None:
    assert clustering_accuracy(["cat", "cat", "dog"], [3, 5, 7]) == pytest.approx(2 / 3)
    assert score_labels([0, 1, 2], [2, 0, 1]) == (1.0, 1.0, 1.0)


def test_lengths_must_agree() -> None:
    with pytest.raises(ValueError, match="two lists of one length"):
        clustering_accuracy([0, 1], [0])


def test_protocol_says_how() -> None:
    text = str(Protocol("split 0", 10, "split 1", 5, "spectral", 3))
    assert text.endswith("by spectral clustering of the embedding, mean and std over 3 seeds")
