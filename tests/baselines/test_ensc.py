"""EnSC separates subspaces; its self-expression is tested in tests/graphs."""

from __future__ import annotations

import numpy as np
import pytest

from cgmcr2._arrays import unit_rows
from cgmcr2.baselines.ensc import EnSC


def subspace_rows(n: int = 60, D: int = 20, seed: int = 0) -> np.ndarray:
    """Unit rows from three random subspaces of dimension 4; row i is in subspace i mod 3."""
    random = np.random.default_rng(seed)
    bases = random.standard_normal((3, 4, D))
    return unit_rows(np.einsum("nk,nkd->nd", random.standard_normal((n, 4)), bases[np.arange(n) % 3])).astype(
        np.float32
    )


def test_separates_three_subspaces() -> None:
    labels = EnSC(3).fit_predict(subspace_rows(90))
    assert len(set(zip(labels, np.arange(90) % 3, strict=True))) == 3


def test_invalid_arguments() -> None:
    with pytest.raises(ValueError, match="tau must be above 0 and at most 1"):
        EnSC(3, tau=0).fit(subspace_rows())
