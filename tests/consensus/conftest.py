"""Small data with known groups."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

Array = np.ndarray[Any, Any]


@pytest.fixture(scope="session")
def gaussian() -> Array:
    """300 rows without groups."""
    return np.random.default_rng(0).standard_normal((300, 6)).astype(np.float32)


@pytest.fixture(scope="session")
def groups() -> tuple[Array, Array]:
    """400 rows in four groups along different axes, and their labels."""
    rng = np.random.default_rng(1)
    y = rng.integers(4, size=400)
    return (np.eye(12)[y] * 3 + rng.standard_normal((400, 12)) * 0.5).astype(np.float32), y


@pytest.fixture(scope="session")
def noisy_partitions() -> tuple[list[Array], Array]:
    """Six partitions of 200 rows with 10 % of random labels, and the true labels."""
    rng = np.random.default_rng(2)
    y = rng.integers(4, size=200)
    return [np.where(rng.random(200) < 0.1, rng.integers(4, size=200), y) for _ in range(6)], y
