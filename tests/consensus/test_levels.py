from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.cluster.hierarchy import fcluster, linkage
from sklearn.metrics import adjusted_rand_score

from cgmcr2.consensus.levels import LevelsConfig, build_levels, ward_merges
from cgmcr2.model.levels import Levels, read_levels, write_levels

Array = np.ndarray[Any, Any]


def two_levels() -> tuple[Array, Array, Array]:
    """Rows of 3 groups of 4 subgroups each, with both labels."""
    rng = np.random.default_rng(0)
    fine = np.arange(480) % 12
    centres = 3 * np.eye(16)[np.arange(12) // 4] + np.eye(16)[4 + np.arange(12)]
    return (centres[fine] + 0.1 * rng.standard_normal((480, 16))).astype(np.float32), fine // 4, fine


def unit(X: Array) -> Array:
    rows: Array = X / np.linalg.norm(X, axis=1, keepdims=True)
    return rows


def partition(levels: Levels, Z: Array, labels: Array, m: int) -> Array:
    numbers = levels.labels(Z, labels, m)
    assert len(np.unique(numbers)) == m
    return numbers


@pytest.mark.parametrize("fitted", ["coarse", "middle", "fine"])
def test_the_tree_holds_the_coarse_and_the_fine_groups_and_the_fitted_partition(fitted: str) -> None:
    X, coarse, fine = two_levels()
    middle = np.where(coarse == 0, 0, coarse * 2 + fine % 2)[:, None]  # five clusters, numbered 0, 2, 3, 4, 5
    labels = {"coarse": coarse, "middle": middle[:, 0], "fine": fine}[fitted]
    k, Z = int(labels.max()) + 1, unit(X - X.mean(0))
    levels = build_levels(X, Z, labels, k, stable=(3, 1000))
    assert levels is not None
    assert levels.proposed == len(np.unique(labels))
    assert levels.stable == tuple(sorted({3, levels.proposed}))
    np.testing.assert_array_equal(partition(levels, Z, labels, levels.proposed), labels)
    for m, truth in ((3, coarse), (12, fine)):
        assert adjusted_rand_score(truth, partition(levels, Z, labels, m)) == 1


def test_levels_are_nested_and_clusters_keep_their_numbers() -> None:
    X, coarse, _ = two_levels()
    Z = unit(X - X.mean(0))
    levels = build_levels(X, Z, coarse, 3)
    assert levels is not None
    assert 80 <= levels.finest <= 96  # 480 rows, five for each leaf
    finer = partition(levels, Z, coarse, levels.finest)
    for m in range(levels.finest - 1, 0, -1):
        numbers = partition(levels, Z, coarse, m)
        (gone,) = np.setdiff1d(finer, numbers)
        changed = finer != numbers
        np.testing.assert_array_equal(changed, finer == gone)  # one cluster is absorbed, all others stay
        (kept,) = np.unique(numbers[changed])
        assert m >= 3 or (finer == kept).sum() >= changed.sum()  # by a larger one
        assert m < 3 or gone == m  # splits are numbered from k on
        finer = numbers


def test_merges_equal_scipys_and_parents_come_first() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 3))
    one = np.zeros(30, dtype=np.int64)
    merges, none = ward_merges(X, np.ones(30, dtype=np.int64), one)
    assert not none
    labels = np.arange(30)
    for step, (kept, gone) in enumerate(merges[:-1], start=1):
        labels[labels == labels[gone]] = labels[kept]
        expected = fcluster(linkage(X, "ward"), 30 - step, "maxclust")
        assert adjusted_rand_score(expected, labels) == 1
    parents = np.arange(30) % 4
    within, across = ward_merges(X, np.ones(30, dtype=np.int64), parents)
    assert (len(within), len(across)) == (26, 3)
    assert all(parents[kept] == parents[gone] for kept, gone in within)


def test_new_rows_go_to_the_nearest_leaf_of_their_cluster() -> None:
    levels = Levels(2, (2,), (0, 1, 2), (0, 1, 0), ((0, 2), (0, 1)), ((1.0, 0.0), (0.0, 1.0), (0.6, 0.8)))
    Z = np.array([[0.9, 0.1], [0.5, 0.9], [0.5, 0.9], [0.5, 0.9]], dtype=np.float32)
    labels = np.array([0, 0, 1, 7])  # no leaf is of cluster 7
    assert levels.labels(Z, labels, 3).tolist() == [0, 2, 1, 7]
    assert levels.labels(Z, labels, 2).tolist() == [0, 0, 1, 7]
    assert levels.labels(Z, labels, 1).tolist() == [0, 0, 0, 7]


@pytest.mark.parametrize("m", [0, 4])
def test_a_level_that_does_not_exist_is_refused(m: int) -> None:
    levels = Levels(2, (2,), (0, 1, 2), (0, 1, 0), ((0, 2), (0, 1)), ((1.0, 0.0),) * 3)
    with pytest.raises(ValueError, match=f"no level of {m} clusters; the levels have 1 to 3"):
        levels.numbers(m)


def test_one_cluster_has_no_levels_and_few_rows_have_few() -> None:
    X, _, _ = two_levels()
    assert build_levels(X, unit(X), np.zeros(480, dtype=np.int64), 1) is None
    levels = build_levels(X[:4], unit(X[:4]), np.array([0, 0, 1, 1]), 2)
    assert levels is not None
    assert levels.finest == 2


def test_levels_survive_a_file(tmp_path: Path) -> None:
    X, coarse, _ = two_levels()
    levels = build_levels(X, unit(X), coarse, 3, config=LevelsConfig(max_leaves=9))
    assert levels is not None
    write_levels(tmp_path, levels)
    assert read_levels(tmp_path) == levels
    assert dataclasses.asdict(levels)["proposed"] == 3
    (tmp_path / "levels.json").write_text("{}")
    with pytest.raises(ValueError, match=r"levels\.json"):
        read_levels(tmp_path)
