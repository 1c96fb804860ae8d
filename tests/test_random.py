from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cgmcr2._random import Stream, generator, mix, sample_rows, seed_from


def test_mix_does_not_collide() -> None:
    assert len({mix(seed, step) for seed in range(30) for step in range(30)}) == 900


def test_streams_of_one_seed_differ() -> None:
    draws = {int(generator(0, stream).integers(2**62)) for stream in Stream}
    assert len(draws) == len(Stream)


def test_samples_are_sorted_distinct_and_reproducible() -> None:
    rows = sample_rows(1000, 100, generator(1, Stream.CENTROIDS))
    assert len(np.unique(rows)) == 100
    assert (np.diff(rows) > 0).all()
    assert np.array_equal(rows, sample_rows(1000, 100, generator(1, Stream.CENTROIDS)))


def test_seed_from_what_scikit_learn_accepts() -> None:
    assert seed_from(np.int64(3)) == 3
    assert seed_from(np.random.RandomState(0)) == seed_from(np.random.RandomState(0))
    assert seed_from(None) != seed_from(None)
    assert seed_from(2**32 - 1) == 2**32 - 1


@pytest.mark.parametrize("seed", [-1, 2**32, True, 1.0])
def test_other_seeds_are_refused(seed: Any) -> None:
    message = rf"random_state must be None, a RandomState or an integer from 0 to 2\*\*32 - 1, but is {seed}\."
    with pytest.raises(ValueError, match=message):
        seed_from(seed)
