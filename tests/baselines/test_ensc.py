from __future__ import annotations

import numpy as np
import pytest

from cgmcr2.baselines.base import unit_rows
from cgmcr2.baselines.ensc import EnSC


def rows(n: int = 60, D: int = 20, seed: int = 0) -> np.ndarray:
    random = np.random.default_rng(seed)
    bases = random.standard_normal((3, 4, D))
    return unit_rows(np.einsum("nk,nkd->nd", random.standard_normal((n, 4)), bases[np.arange(n) % 3])).astype(
        np.float32
    )


def test_rows_of_three_subspaces_are_told_apart() -> None:
    labels = EnSC(3).fit_predict(rows(90))
    assert len(set(zip(labels, np.arange(90) % 3, strict=True))) == 3


def test_settings_that_cannot_be_are_refused() -> None:
    with pytest.raises(ValueError, match="tau must be above 0 and at most 1"):
        EnSC(3, tau=0).fit(rows())
