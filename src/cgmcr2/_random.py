"""Seeds and random generators."""

from __future__ import annotations

import contextlib
import enum
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import torch


class Stream(enum.IntEnum):
    """Independent random streams of one seed."""

    TRAINING_ROWS = 1
    NEIGHBOUR_CHUNKS = 2
    VIEW_ROWS = 3
    CHOOSE_K = 4
    STABILITY = 5
    CENTROIDS = 6
    FIGURES = 7
    TUNING_ROWS = 8
    LEVELS = 9
    CLUSTER_MEANS = 10


def generator(seed: int, stream: Stream) -> np.random.Generator:
    """The random generator of a stream of ``seed``."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(stream,)))


def sample_rows(n: int, most: int, rng: np.random.Generator) -> npt.NDArray[np.int64]:
    """Sorted sample of at most ``most`` of the row numbers 0 ... n-1, without replacement.

    >>> sample_rows(3, 5, np.random.default_rng(0)).tolist()
    [0, 1, 2]
    >>> len(sample_rows(100, 5, np.random.default_rng(0)))
    5
    """
    return np.arange(n) if n <= most else np.sort(rng.choice(n, most, replace=False))


def mix(seed: int, step: int) -> int:
    """A 63-bit seed derived from (seed, step)."""
    return int(np.random.SeedSequence([seed, step]).generate_state(1, np.uint64)[0] >> np.uint64(1))


@contextlib.contextmanager
def seeded(seed: int, device: torch.device | str = "cpu") -> Iterator[None]:
    """Seed torch's global generators; afterwards, restore those of the CPU and of ``device``.

    >>> import torch
    >>> with seeded(0):
    ...     a = torch.rand(1)
    >>> with seeded(0):
    ...     b = torch.rand(1)
    >>> bool(a == b)
    True
    """
    import torch

    device = torch.device(device)
    with torch.random.fork_rng([] if device.type == "cpu" else [device], device_type=device.type):
        torch.manual_seed(seed)
        yield


def seed_from(random_state: Any) -> int:
    """The seed for scikit-learn's ``random_state``: an int, a ``RandomState``, or None for a random one.

    >>> seed_from(7)
    7
    """
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31))
    if random_state is None:
        return int(np.random.SeedSequence().generate_state(1)[0])
    is_integer = isinstance(random_state, (int, np.integer)) and not isinstance(random_state, bool)
    if not is_integer or not 0 <= random_state < 2**32:  # the range of scikit-learn
        raise ValueError(
            f"random_state must be None, a RandomState or an integer from 0 to 2**32 - 1, but is {random_state!r}."
        )
    return int(random_state)
