from __future__ import annotations

import numpy as np
from threadpoolctl import threadpool_info

from cgmcr2._threads import SMALL, blas_threads


def blas() -> list[int]:
    np.linalg.eigh(np.eye(2))
    return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]


def test_small_problems_use_one_thread_and_restore_the_number() -> None:
    before = blas()
    with blas_threads(rows=10):
        assert set(blas()) == {1}
    assert blas() == before
    with blas_threads(rows=SMALL + 1):
        assert blas() == before
