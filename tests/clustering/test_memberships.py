"""Memberships after edits, against a dense copy that is edited in place."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cgmcr2.clustering import Clustering
from cgmcr2.clustering.memberships import Memberships

N, K = 10, 4
ROWS = st.lists(st.integers(0, N - 1), min_size=1, max_size=5, unique=True)
CLUSTERS = st.lists(st.integers(0, K - 1), min_size=2, max_size=3, unique=True)
EDITS = st.one_of(
    st.tuples(st.just("move"), ROWS, st.integers(0, K - 1)),
    st.tuples(st.just("new"), ROWS),
    st.tuples(st.just("merge"), CLUSTERS),
    st.tuples(st.just("refine"), ROWS, st.integers(0, K - 1)),
    st.tuples(st.just("reject"), ROWS, st.integers(0, K - 1)),
)


def edit_dense(P: np.ndarray, labels: np.ndarray, verb: str, first: list[int], second: int) -> np.ndarray:
    """The probabilities after an edit, with one loop per row."""
    P = np.pad(P, ((0, 0), (0, verb == "new")))
    if verb == "merge":
        P[:, first[0]] = P[:, first].sum(1)
        P[:, first[1:]] = 0
        return P
    for row in first:
        if verb in ("move", "new"):
            P[row] = np.eye(P.shape[1])[second if verb == "move" else -1]
        elif verb == "refine":
            P[row, labels[row]], P[row, second] = P[row, second], P[row, labels[row]]
        elif P[row, second] < 1:
            P[row, second] = 0
            P[row] /= P[row].sum()
    return P


@given(st.lists(EDITS, max_size=10), st.lists(st.integers(0, N - 1)))
def test_memberships_equal_a_dense_copy(edits: list[tuple[str, list[int], int]], rows: list[int]) -> None:
    P = np.random.default_rng(0).dirichlet(np.ones(K), size=N)
    c = Clustering([str(row) for row in range(N)], P.argmax(1), probabilities=P)
    for verb, first, *second in edits:
        if verb == "reject" and (P[first, second[0]] == 1).any():
            continue  # excludes the image, which adds a cluster
        P = edit_dense(P, c.labels, verb, first, *(second or [0]))
        arguments = {"refine": [[*second] * len(first)], "reject": [second]}.get(verb, second)
        c = getattr(c, verb)(first, *arguments)
        assert c.memberships is not None
        np.testing.assert_allclose(c.memberships.dense(), P, atol=1e-6)
        np.testing.assert_allclose(c.memberships.total([0, 2]), P[:, [0, 2]].sum(1), atol=1e-6)
        index = np.array(rows, np.int64)
        np.testing.assert_allclose(c.memberships[index], P[index], atol=1e-6)


def test_edits_do_not_copy_the_fitted_probabilities() -> None:
    P = np.full((6, 2), 0.5, np.float32)
    c = Clustering(list("abcdef"), np.zeros(6), probabilities=P)
    edited = c.rename(0, "x").lock([5]).move([1], 1).merge([0, 1]).new([2])
    assert c.memberships is not None
    assert edited.memberships is not None
    assert edited.memberships.fitted is c.memberships.fitted
    assert np.shares_memory(edited.memberships.fitted, P)
    assert c.rename(0, "x").labels is c.labels
    assert c.probabilities is not None
    assert np.shares_memory(c.probabilities, P)
    with pytest.raises(ValueError, match="read-only"):
        c.probabilities[0] = 1


def test_blocks_cover_all_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cgmcr2.clustering.memberships.BLOCK_ROWS", 3)
    P = np.random.default_rng(0).random((8, 2), np.float32)
    memberships = Memberships(P, 3, certain=np.full(8, -1, np.int32))
    np.testing.assert_array_equal(memberships.dense(), np.pad(P, ((0, 0), (0, 1))))
    rows = np.array([7, 1, 4, 2])
    np.testing.assert_array_equal(np.concatenate([values for _, values in memberships.blocks(rows)])[:, :2], P[rows])
