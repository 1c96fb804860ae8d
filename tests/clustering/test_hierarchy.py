from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.cluster.hierarchy import is_valid_linkage

from cgmcr2.clustering import Clustering
from cgmcr2.clustering.hierarchy import build_hierarchy


def planes(degrees: float, n: int = 200) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Three lines in space: the second at so many degrees to the first, the third orthogonal to both."""
    turn = np.radians(degrees)
    lines = np.array([[1, 0, 0], [np.cos(turn), np.sin(turn), 0], [0, 0, 1]])
    labels = np.arange(n) % 3
    sign = np.random.default_rng(0).choice([-1, 1], n)[:, None]  # a subspace has no direction
    return lines[labels] * sign, labels


@pytest.mark.parametrize("degrees", [20, 45, 70])
def test_the_angle_between_lines_is_the_one_they_enclose(degrees: float) -> None:
    Z, labels = planes(degrees)
    angles = build_hierarchy(Z, labels, 3).angles
    assert angles[0, 1] == pytest.approx(degrees)
    assert angles[0, 2] == pytest.approx(90)
    np.testing.assert_array_equal(angles, angles.T)


def test_a_rotation_changes_nothing() -> None:
    random = np.random.default_rng(0)
    Z, labels = random.standard_normal((60, 5)), random.integers(4, size=60)
    Q = np.linalg.qr(random.standard_normal((5, 5)))[0]
    one, other = build_hierarchy(Z, labels, 4), build_hierarchy(Z @ Q, labels, 4)
    np.testing.assert_allclose(one.angles, other.angles)
    assert one.order == other.order


def test_the_tree_joins_what_is_near_and_puts_it_side_by_side() -> None:
    Z, labels = planes(25)
    tree = build_hierarchy(Z, 2 * labels, 5)  # clusters 1 and 3 are empty
    assert tree.clusters == [0, 2, 4]
    assert is_valid_linkage(tree.linkage)
    assert tree.groups(2) == [[4], [0, 2]]
    assert tree.groups(1) == [[0, 2, 4]]
    assert tree.groups(3) == [[0], [2], [4]]
    assert abs(tree.order.index(0) - tree.order.index(2)) == 1
    with pytest.raises(ValueError, match="3 clusters cannot be merged into 4; ask for 1 to 3"):
        tree.groups(4)


def clustering(**more: Any) -> Clustering:
    Z, labels = planes(25, 300)
    keep = ~((labels == 0) & (np.arange(300) > 150))  # cluster 1 is larger than 0
    n = int(keep.sum())
    return Clustering([str(i) for i in range(n)], labels[keep], embedding=Z[keep], **more)


def test_fewer_clusters_are_merges_that_keep_numbers_and_the_largest_name() -> None:
    c = clustering(names=["small", "large", "other"])
    fewer = c.with_clusters(2)
    assert fewer.clusters == [1, 2]
    assert (fewer.names[1], fewer.merged) == ("large", {0: 1})
    assert c.clusters == [0, 1, 2]  # a value: the first one is as it was
    assert fewer.with_clusters(1).clusters == [1]
    assert c.with_clusters(3) == c
    assert c.exclude([0]).with_clusters(1).rows("Excluded").tolist() == [0]


def test_without_an_embedding_there_is_no_tree() -> None:
    with pytest.raises(ValueError, match="needs the embedding"):
        Clustering(["a", "b"], [0, 1]).with_clusters(1)


def test_one_cluster_and_none() -> None:
    assert Clustering(["a"], [0], embedding=[[1, 0]]).hierarchy().order == [0]
    assert Clustering(["a"], [0], embedding=[[1, 0]]).hierarchy().text(["all"]) == "all"
    assert Clustering([], [], embedding=np.empty((0, 2))).hierarchy().order == []
