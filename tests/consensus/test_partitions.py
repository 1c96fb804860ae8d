from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from sklearn.metrics import adjusted_mutual_info_score, normalized_mutual_info_score

from cgmcr2.consensus.partitions import adjusted_mutual_information, match_clusters, mean_nmi, pairwise_nmi


def test_pairwise_nmi_equals_scikit_learn() -> None:
    rng = np.random.default_rng(0)
    partitions = [rng.integers(k, size=200) for k in (2, 5, 5, 7)]
    nmi = pairwise_nmi(partitions)
    for i, a in enumerate(partitions):
        for j, b in enumerate(partitions):
            assert nmi[i, j] == pytest.approx(normalized_mutual_info_score(a, b), abs=1e-9)


def test_mean_nmi_is_over_pairs() -> None:
    a, b = np.array([0, 0, 1, 1] * 50), np.array([0, 1, 0, 1] * 50)
    assert mean_nmi(pairwise_nmi([a, a, b])) == pytest.approx(1 / 3)


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
