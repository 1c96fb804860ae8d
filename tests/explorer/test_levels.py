from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from cgmcr2 import Clustering
from cgmcr2.consensus.levels import build_levels
from cgmcr2.explorer.levels import level_edits


@pytest.fixture
def clustering() -> Clustering:
    """Four clusters of 10, 20, 30 and 40 rows; the rows of cluster 2 vary most."""
    labels = np.repeat(np.arange(4), [10, 20, 30, 40])
    spread = np.array([0.1, 0.2, 0.6, 0.1])[labels][:, None]
    Z = np.eye(8)[labels] + spread * np.random.default_rng(0).normal(size=(100, 8))
    Z /= np.linalg.norm(Z, axis=1, keepdims=True)
    return Clustering([str(row) for row in range(100)], labels, embedding=Z, names=["a", "b", "c", "d"])


def halves(cluster: int, parts: int) -> list[list[int]]:
    return [[cluster, part] for part in range(1, parts)]


def test_the_largest_cluster_of_a_merge_keeps_its_name(clustering: Clustering) -> None:
    (verb, arguments), *_ = level_edits(clustering, 2, halves)
    sizes = clustering.sizes()[arguments["clusters"]].tolist()
    assert verb == "merge"
    assert sizes == sorted(sizes, reverse=True)
    merged = clustering.batch(level_edits(clustering, 2, halves))
    assert len(merged.clusters) == 2


def test_the_least_cohesive_clusters_are_split_first(clustering: Clustering) -> None:
    assert level_edits(clustering, 4, halves) == []
    assert [arguments["cluster"] for _, arguments in level_edits(clustering, 6, halves)] == [2, 1]


@pytest.mark.parametrize("m", [5, 8, 9, 30, 90])
def test_the_number_of_parts_adds_up(clustering: Clustering, m: int) -> None:
    parts = Counter(
        {arguments["cluster"]: len(arguments["parts"]) for _, arguments in level_edits(clustering, m, halves)}
    )
    assert parts.total() == m - 4
    assert all(parts[cluster] + 1 < size for cluster, size in enumerate(clustering.sizes().tolist()))


def test_excluded_images_are_left_alone(clustering: Clustering) -> None:
    edited = clustering.exclude(range(90, 100))
    for m in (1, 8):
        for verb, arguments in level_edits(edited, m, halves):
            assert edited.excluded not in (arguments["clusters"] if verb == "merge" else [arguments["cluster"]])


def test_impossible_numbers_are_refused(clustering: Clustering) -> None:
    for m in (0, 101):
        with pytest.raises(ValueError, match="can be in 1 to 100"):
            level_edits(clustering, m, halves)
    with pytest.raises(ValueError, match="ask for fewer"):
        level_edits(clustering, 100, halves)


@pytest.mark.parametrize("m", [1, 2, 4, 6, 9])
def test_the_levels_of_a_run_are_followed(clustering: Clustering, m: int) -> None:
    Z = np.array(clustering.embedding, dtype=np.float32)
    levels = build_levels(Z, Z, clustering.labels, 4)
    assert levels is not None
    edits = level_edits(clustering, m, halves, levels)
    edited = clustering.batch(edits) if edits else clustering
    assert adjusted_rand_score(edited.labels, levels.labels(Z, clustering.labels, m)) == 1
    assert len(edited.clusters) == m
