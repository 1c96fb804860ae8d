from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from sklearn.metrics import adjusted_mutual_info_score, mutual_info_score

from cgmcr2.consensus.partitions import adjusted_mutual_information, match_clusters, neighbour_information


def test_neighbour_information_is_the_mutual_information_over_edges() -> None:
    rng = np.random.default_rng(0)
    labels, neighbours = rng.integers(4, size=60), rng.integers(60, size=(60, 3))
    ends = labels[neighbours].ravel()
    starts = labels.repeat(3)
    both = mutual_info_score(np.concatenate([starts, ends]), np.concatenate([ends, starts]))
    assert neighbour_information(labels, neighbours, 4) == pytest.approx(both)
    assert neighbour_information(labels, neighbours, 7) == pytest.approx(both)  # three empty clusters


def test_adjusted_mutual_information_is_close_to_scikit_learn() -> None:
    rng = np.random.default_rng(0)
    a = rng.integers(6, size=4000)
    b = np.where(rng.random(4000) < 0.3, rng.integers(6, size=4000), a)
    assert adjusted_mutual_information(a, b, rng) == pytest.approx(adjusted_mutual_info_score(a, b), abs=0.005)


def test_matching_is_one_to_one_and_optimal() -> None:
    rng = np.random.default_rng(0)
    partition, labels = rng.integers(4, size=50), rng.integers(4, size=50)
    matched = match_clusters(partition, labels, 4)
    assert len({(int(a), int(b)) for a, b in zip(partition, matched, strict=True)}) == 4
    best = max((np.array(order)[partition] == labels).mean() for order in permutations(range(4)))
    assert (matched == labels).mean() == best
