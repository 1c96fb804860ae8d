from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from cgmcr2.consensus import ensemble as consensus
from cgmcr2.training import start
from cgmcr2.training.graph import NeighbourGraph

RANDOM = np.random.default_rng(0)


@pytest.fixture
def X() -> np.ndarray[Any, Any]:
    return np.random.default_rng(0).standard_normal((300, 6)).astype(np.float32)


@pytest.fixture
def groups() -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Four groups along directions of their own, and which is which."""
    random = np.random.default_rng(1)
    y = random.integers(4, size=400)
    return (np.eye(12)[y] * 3 + random.standard_normal((400, 12)) * 0.5).astype(np.float32), y


def test_views_are_centred_and_scaled(X: np.ndarray[Any, Any]) -> None:
    views = start.linear_views(X, 6, seed=0)
    unit = torch.nn.functional.normalize(torch.from_numpy(X), dim=1) - views.mean
    for matrix in (views.standard, views.white):
        seen = unit @ matrix
        assert seen.mean(0).abs().max() < 1e-5
        assert seen.square().mean().item() == pytest.approx(1, rel=1e-3)
        covariance = seen.T @ seen / len(seen)
        off = covariance - covariance.diag().diag()
        assert off.abs().max() < 1e-4  # principal directions
    spread = [(unit @ matrix).var(0) for matrix in (views.standard, views.white)]
    assert spread[1].max() / spread[1].min() < spread[0].max() / spread[0].min()


def test_views_repeat_and_their_directions_have_a_fixed_sign(X: np.ndarray[Any, Any]) -> None:
    once, again = start.linear_views(X, 3, seed=0), start.linear_views(X.copy(), 3, seed=0)
    assert torch.equal(once.standard, again.standard)
    assert (once.standard.gather(0, once.standard.abs().argmax(0, keepdim=True)) > 0).all()


def test_constant_features_do_not_divide_by_zero() -> None:
    views = start.linear_views(np.ones((10, 3), dtype=np.float32), 3, seed=0)
    assert all(matrix.isfinite().all() for matrix in (views.standard, views.white))


def test_neighbours_are_the_exact_ones_in_each_view(X: np.ndarray[Any, Any]) -> None:
    views = start.linear_views(X, 6, seed=0)
    found = start.nearest_neighbours(X, views, 4, seed=0)
    for part, seen in zip(found, views.unit(torch.from_numpy(X)), strict=True):
        similarity = (seen @ seen.T).numpy()
        np.fill_diagonal(similarity, -2)
        expected = np.sort(np.argsort(-similarity, axis=1)[:, :4], axis=1)
        assert np.array_equal(np.sort(part, axis=1), expected)


def test_neighbours_in_chunks_are_never_oneself(X: np.ndarray[Any, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(start, "CHUNK", 40)
    neighbours = start.nearest_neighbours(X, start.linear_views(X, 6, seed=0), 3, seed=0)
    assert neighbours.shape == (2, 300, 3)
    assert (neighbours != np.arange(300)[:, None]).all()
    assert len(np.unique(neighbours)) > 200


def test_the_graph_of_a_batch_is_the_whole_graph_restricted(X: np.ndarray[Any, Any]) -> None:
    neighbours = np.concatenate(start.nearest_neighbours(X, start.linear_views(X, 6, seed=0), 3, seed=0), axis=1)
    whole = np.zeros((300, 300), dtype=np.float32)
    np.add.at(whole, (np.repeat(np.arange(300), 6), neighbours.ravel()), 0.5)
    whole += whole.T
    rows = np.random.default_rng(0).permutation(300)[:80]
    graph = NeighbourGraph(neighbours)
    for _ in range(2):  # the second call must not see the first one's places
        assert np.array_equal(graph.edges(rows).dense().numpy(), whole[np.ix_(rows, rows)])


def test_consensus_finds_what_is_plain(groups: Any) -> None:
    from cgmcr2.evaluation import clustering_accuracy

    X, y = groups
    views = start.linear_views(X, 12, seed=0)
    near = start.nearest_neighbours(X, views, 20, seed=0)
    labels = consensus.consensus(*views.unit(torch.from_numpy(X)), near, 4, seed=0).labels
    assert clustering_accuracy(y, labels) > 0.97
    assert np.array_equal(labels, consensus.consensus(*views.unit(torch.from_numpy(X)), near, 4, seed=0).labels)


@pytest.mark.parametrize("white", [True, False])
def test_the_white_view_is_heard_alone_where_only_it_shows_the_groups(groups: Any, white: bool) -> None:
    from cgmcr2.evaluation import clustering_accuracy

    X, y = groups
    noise = torch.randn(X.shape, generator=torch.Generator().manual_seed(0))
    seen = [torch.nn.functional.normalize(view, dim=1) for view in (noise, torch.from_numpy(X))]
    if not white:
        seen.reverse()
    near = np.stack([start.among_themselves(view, 20).numpy() for view in seen])
    found = consensus.consensus(*seen, near, 4, seed=0)
    assert found.white == white
    assert clustering_accuracy(y, found.labels) > (0.97 if white else 0.9)
    few = consensus.consensus(*(view[:100] for view in seen), near[:, :100] % 100, 4, seed=0)
    assert not few.white  # 25 rows a cluster


def test_stability_is_the_mean_over_pairs() -> None:
    a, b = np.array([0, 0, 1, 1] * 50), np.array([0, 1, 0, 1] * 50)
    assert consensus.stability([a, a, b], 2) == pytest.approx(1 / 3)


def test_the_walk_is_weighed_by_shared_neighbours() -> None:
    near = np.array([[[1, 2], [0, 2], [1, 0], [2, 1]]])  # rows 0, 1, 2 are all neighbours; 3 is nobody's
    walk = consensus.random_walk(near, 2).toarray()
    assert walk.sum(1) == pytest.approx(1)
    assert walk[3, 3] == pytest.approx(consensus.STAY / (1 + consensus.STAY))
    assert walk[0, 1] == walk[0, 2] == pytest.approx(0.5 / (1 + consensus.STAY))
    assert walk[2, 3] < walk[2, 0] / 2  # {2, 0, 1} and {3, 2, 1} share two of four, {0, 1, 2} and {2, 1, 0} all, twice
    assert walk[0, 3] == 0


def test_a_large_eigenproblem_is_solved_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    from cgmcr2.evaluation import clustering_accuracy

    random = np.random.default_rng(2)
    y = random.integers(4, size=200)
    partitions = [np.where(random.random(200) < 0.1, random.integers(4, size=200), y) for _ in range(6)]
    whole = consensus.combine(partitions, 4, 0)
    monkeypatch.setattr(consensus, "DENSE", 5)
    assert clustering_accuracy(whole, consensus.combine(partitions, 4, 0)) == 1
    few = consensus.combine([labels[:20] for labels in partitions], 4, 0)  # fewer rows than clusters in all
    assert clustering_accuracy(whole[:20], few) > 0.9


def test_mutual_information_is_scikit_learns() -> None:
    from sklearn.metrics import normalized_mutual_info_score

    partitions = [RANDOM.integers(k, size=200) for k in (2, 5, 5, 7)]
    ours = consensus.mutual_information(partitions)
    for i, a in enumerate(partitions):
        for j, b in enumerate(partitions):
            assert ours[i, j] == pytest.approx(normalized_mutual_info_score(a, b), abs=1e-9)


def test_the_trusted_leave_out_the_odd_ones() -> None:
    y = RANDOM.integers(3, size=200)
    good = [np.where(RANDOM.random(200) < 0.05, RANDOM.integers(3, size=200), y) for _ in range(4)]
    odd = RANDOM.integers(3, size=200)
    partitions = [good[0], odd, odd.copy(), *good[1:]]
    kept = consensus.trusted(partitions, consensus.agreement(partitions, 3))
    assert len(kept) == 3
    assert all(any(part is one for one in good) for part in kept)


def test_sizes_that_become_uneven_and_settle_are_so_in_truth() -> None:
    even = np.repeat(np.arange(4), 50)
    skewed = np.repeat(np.arange(4), [110, 40, 30, 20])
    assert consensus.settled([even, skewed, skewed], 4)
    assert not consensus.settled([even, skewed], 4)  # once is too few
    assert not consensus.settled([even, skewed, np.roll(skewed, 25)], 4)
    assert consensus.settled([even, skewed, np.roll(skewed, 25), np.roll(skewed, 25)], 4)
    assert not consensus.settled([skewed, even, even], 4)  # more even than before
    assert not consensus.settled([even, even, even], 4)
    weights = consensus.rarity(skewed)
    assert weights.mean().item() == pytest.approx(1)
    assert weights[-1] / weights[0] == pytest.approx((110 / 20) ** 1.5)


def test_uneven_sizes_are_found_in_digits(monkeypatch: pytest.MonkeyPatch) -> None:
    from sklearn.datasets import load_digits

    from cgmcr2.evaluation import clustering_accuracy

    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(10)
    rows = np.concatenate([np.flatnonzero(y == c)[: int(180 * 10 ** (-i / 9))] for i, c in enumerate(order)])
    X, y = X[rows].astype(np.float32), y[rows]
    views = start.linear_views(X, 64, seed=0)
    near = start.nearest_neighbours(X, views, 20, seed=0)
    scores = []
    for even in (0.0, consensus.EVEN):
        monkeypatch.setattr(consensus, "EVEN", even)
        found = consensus.consensus(*views.unit(torch.from_numpy(X)), near, 10, seed=0)
        scores.append(clustering_accuracy(y, found.labels))
    assert scores[1] > scores[0] + 0.05, scores


def test_a_consensus_of_weighted_rows_is_that_of_repeated_ones() -> None:
    from cgmcr2.evaluation import clustering_accuracy

    random = np.random.default_rng(3)
    y = random.integers(4, size=200)
    partitions = [np.where(random.random(200) < 0.3, random.integers(4, size=200), y) for _ in range(6)]
    times = np.arange(200) % 3 + 1
    weighted = consensus.combine(partitions, 4, 0, torch.from_numpy(times).float())
    repeated = consensus.combine([labels.repeat(times) for labels in partitions], 4, 0)
    assert clustering_accuracy(weighted.repeat(times), repeated) > 0.99
