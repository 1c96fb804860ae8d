"""A small training problem."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cgmcr2.training import Settings

SMALL = Settings(
    hidden_dim=16,
    embedding_dim=6,
    n_heads=2,
    gamma=5.0,
    s=5,
    batch_size=40,
    warmup_epochs=5,
    finetune_epochs=10,
    lr=3e-3,
)  # 3 steps per epoch on 120 rows, 45 steps in all


@pytest.fixture(scope="session")
def small() -> Settings:
    return SMALL


@pytest.fixture(scope="session")
def X() -> np.ndarray[Any, Any]:
    """120 rows in three groups."""
    rng = np.random.default_rng(0)
    centres = rng.standard_normal((3, 8)) * 3
    return (centres[rng.integers(3, size=120)] + 0.3 * rng.standard_normal((120, 8))).astype(np.float32)
