"""The verbs that edit a clustering."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cgmcr2._arrays import confidence_and_margin, unit_rows
from cgmcr2.clustering import Clustering
from cgmcr2.clustering.geometry import cluster_energy
from cgmcr2.clustering.memberships import best_other


def example(n: int = 12, k: int = 4, seed: int = 0) -> Clustering:
    P = np.random.default_rng(seed).dirichlet(np.ones(k), size=n).astype(np.float32)
    return Clustering([f"{row}.jpg" for row in range(n)], P.argmax(1), probabilities=P, embedding=unit_rows(P))


def test_reject_moves_to_the_best_remaining_cluster() -> None:
    P = np.array([[0.5, 0.3, 0.2], [0.1, 0.6, 0.3], [0.2, 0.3, 0.5]], np.float32)
    c = Clustering(["a", "b", "c"], [0, 1, 2], probabilities=P)
    rejected = c.reject([0, 2], [0, 1])
    assert rejected.labels.tolist() == [2, 1, 2]
    assert rejected.excluded is None
    np.testing.assert_allclose(rejected.probabilities, [[0, 0, 1], P[1], [0, 0, 1]])
    np.testing.assert_allclose(c.reject([2], ["Cluster 0"]).confidence[2], 0.5 / 0.8)
    np.testing.assert_array_equal(c.probabilities, P)


def test_reject_of_every_cluster_or_without_probabilities_excludes() -> None:
    c = example()
    assert c.reject([3], range(4)).labels[3] == 4
    assert c.reject([3], range(4)).excluded == 4
    certain = c.move([5], 2).reject([5], [2])  # a moved image has probability 0 in all other clusters
    assert certain.labels[5] == certain.excluded
    bare = Clustering(["a", "b"], [0, 1]).reject([0, 1], [1])
    assert (bare.labels.tolist(), bare.excluded) == ([0, 2], 2)
    assert Clustering(["a", "b"], [0, 1]).reject([0], [1]).excluded is None


def test_refine_exchanges_the_probabilities_of_both_clusters() -> None:
    c = Clustering(["a", "b"], [0, 1], probabilities=[[0.5, 0.3, 0.2], [0.1, 0.6, 0.3]])
    refined = c.refine([0, 1], [2, 1])
    np.testing.assert_allclose(refined.probabilities, [[0.2, 0.3, 0.5], [0.1, 0.6, 0.3]])
    np.testing.assert_allclose(refined.confidence, [0.5, 0.6])
    scored = c.refine([1], [0], confidence=[0.9], margin=[0.8])
    np.testing.assert_allclose([scored.confidence[1], scored.margin[1]], [0.9, 0.8])
    assert scored.confidence[0] == c.confidence[0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([0, 0], [1, 2]), "each image once"),
        (([0, 1], [1]), r"refinement of 2 images has clusters of shape \(1,\)"),
        (([0], [9]), "no cluster 9"),
        (([0], [1], [0.5, 0.5]), "has confidence of shape"),
        (([11], [1]), "1 of the 1 images is locked"),
    ],
    ids=["twice", "length", "cluster", "confidence", "locked"],
)
def test_invalid_refinements_are_refused(arguments: tuple[list[int], ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        example().lock([11]).refine(*arguments)


def test_excluded_images_are_not_rejected_from_their_cluster() -> None:
    c = example().exclude([0])
    with pytest.raises(ValueError, match="Rejecting needs clusters other than that of excluded images"):
        c.reject([0], [4])
    with pytest.raises(ValueError, match="Rejecting needs clusters"):
        c.reject([0], [])


EDITS = st.one_of(
    st.tuples(st.just("move"), st.lists(st.integers(0, 11), min_size=1), st.integers(0, 3)),
    st.tuples(st.just("reject"), st.lists(st.integers(0, 11), min_size=1), st.sets(st.integers(0, 3), min_size=1)),
    st.tuples(st.just("new"), st.lists(st.integers(0, 11), min_size=1)),
    st.tuples(st.just("exclude"), st.lists(st.integers(0, 11), min_size=1)),
    st.tuples(st.just("lock"), st.lists(st.integers(0, 11), min_size=1, max_size=2)),
    st.tuples(st.just("merge"), st.sets(st.integers(0, 3), min_size=2, max_size=3)),
    st.tuples(st.just("refine"), st.lists(st.integers(0, 11), min_size=2, max_size=2, unique=True), st.just((0, 1))),
)


@given(st.lists(EDITS, max_size=8))
def test_edits_keep_the_values_consistent(edits: list[tuple[object, ...]]) -> None:
    """Memberships sum to 1, confidence and margin follow from them, and only a merge relabels locked rows."""
    c = example()
    assert c.runner_up.max() == 3
    for verb, *arguments in edits:
        before, copy = c, c.subset(np.arange(12))
        arguments = [sorted(value) if isinstance(value, set) else value for value in arguments]
        refused = verb not in ("merge", "lock") and c.locked[arguments[0]].any()
        with pytest.raises(ValueError, match=r"(is|are) locked") if refused else contextlib.nullcontext():
            c = getattr(c, str(verb))(*arguments)
        assert before == copy
        if verb != "merge":
            np.testing.assert_array_equal(c.labels[before.locked], before.labels[before.locked])
        assert c.probabilities is not None
        np.testing.assert_allclose(c.probabilities.sum(1), 1, atol=1e-5)
        confidence, margin = confidence_and_margin(c.labels, np.asarray(c.probabilities))
        np.testing.assert_allclose(c.confidence, confidence, atol=1e-6)
        np.testing.assert_allclose(c.margin, margin, atol=1e-5)
        assert "runner_up" in vars(c)  # updated by the edit
        np.testing.assert_array_equal(c.runner_up, best_other(c.labels, c.probabilities))
        assert c.energy is not None
        assert c.embedding is not None
        np.testing.assert_allclose(c.energy, cluster_energy(c.embedding, c.labels))
