"""Threads of NumPy's and SciPy's linear algebra."""

from __future__ import annotations

import contextlib
import functools

from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

SMALL = 2_000  # rows of the largest matrix that one thread factorises in about a second


def blas_threads(rows: int) -> contextlib.AbstractContextManager[object]:
    """Context in which BLAS uses one thread for a matrix of at most ``SMALL`` rows, else a null context.

    Idle threads of OpenBLAS spin while they wait for one another. Next to other busy processes that made small
    eigenproblems up to 50 times as slow. Torch has threads of its own, which this leaves alone; set
    ``OMP_WAIT_POLICY=PASSIVE`` before torch is imported to keep those from spinning.

    >>> with blas_threads(rows=500):
    ...     pass
    """
    if rows > SMALL:
        return contextlib.nullcontext()
    limits: contextlib.AbstractContextManager[object] = _controller().limit(limits=1, user_api="blas")
    return limits


@functools.cache
def _controller() -> ThreadpoolController:
    """The controller of the libraries that are loaded; finding them takes longer than setting a limit."""
    import scipy.linalg  # noqa: F401 - SciPy brings a BLAS of its own

    return ThreadpoolController()
