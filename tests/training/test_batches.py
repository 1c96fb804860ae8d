from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from cgmcr2.training.batches import Batches


@pytest.mark.parametrize(("n", "steps"), [(10, 1), (10, 3), (7, 3), (1000, 7)])
def test_an_epoch_is_every_row_once_in_nearly_equal_batches(n: int, steps: int) -> None:
    batches = Batches(n, steps, seed=1)
    parts = [batches.rows(step) for step in range(steps)]
    assert sorted(np.concatenate(parts)) == list(range(n))
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


def test_any_step_can_be_asked_for_and_epochs_differ() -> None:
    batches = Batches(100, 4, seed=1)
    later = batches.rows(9).copy()
    assert not np.array_equal(batches.rows(1), later)
    assert np.array_equal(Batches(100, 4, seed=1).rows(9), later)
    assert not np.array_equal(Batches(100, 4, seed=2).rows(9), later)


def test_threads_may_ask_for_different_epochs() -> None:
    batches, expected = Batches(500, 1, seed=0), [Batches(500, 1, seed=0).rows(step) for step in range(50)]
    with ThreadPoolExecutor(4) as pool:
        for _ in range(5):
            found = pool.map(batches.rows, range(50))
            assert all(np.array_equal(a, b) for a, b in zip(found, expected, strict=True))


def test_fixed_size_leaves_out_the_remainder() -> None:
    batches = Batches(10, 3, seed=0, batch_size=3)
    assert [len(batches.rows(step)) for step in range(3)] == [3, 3, 3]


def test_half_are_neighbours_of_the_others() -> None:
    neighbours = (np.arange(20)[:, None] + [1, 2]) % 20
    points = set(Batches(20, 2, seed=0).rows(0)[:5])
    rows = set(Batches(20, 2, seed=0, neighbours=neighbours).rows(0))
    assert points < rows
    assert all(any(row in neighbours[point] for point in points) for row in rows - points)


def test_every_row_meets_each_of_its_neighbours_in_some_epoch() -> None:
    neighbours = np.arange(20)[:, None] + [100, 200]
    batches = Batches(20, 2, seed=0, neighbours=neighbours)
    assert set(neighbours.flat) <= {int(row) for step in range(200) for row in batches.rows(step)}
