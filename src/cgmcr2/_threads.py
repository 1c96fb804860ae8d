"""Threads of torch, and of NumPy's and SciPy's linear algebra."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch
from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

T = TypeVar("T")
R = TypeVar("R")

SMALL = 2_000  # rows of the largest matrix that one thread factorises in about a second
SMALL_BATCH = 256  # rows of the largest batch whose operations are too short for threads to pay off


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


def torch_threads(rows: int) -> contextlib.AbstractContextManager[object]:
    """Context in which torch uses one thread for batches of at most ``SMALL_BATCH`` rows, else a null context.

    >>> with torch_threads(rows=10):
    ...     torch.get_num_threads()
    1
    """
    return one_thread() if rows <= SMALL_BATCH else contextlib.nullcontext()


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Context in which torch uses one thread."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def map_threads(function: Callable[[T], R], items: Sequence[T], *, one_thread_per_item: bool = False) -> Iterator[R]:
    """``map(function, items)`` without gradients, computed by as many threads as torch uses, in the order of ``items``.

    Each item is computed by one thread. Parallel operations wait for their slowest thread thousands of times a second,
    which takes several times as long on a busy machine; here each thread continues with the next item. With fewer than
    two items per thread, the items are computed one by one, with parallel operations, whose rounding depends on the
    number of threads. ``one_thread_per_item`` rules this out.

    >>> list(map_threads(lambda i: 2 * i, range(4)))
    [0, 2, 4, 6]
    """
    threads = torch.get_num_threads()
    if threads == 1 or (len(items) < 2 * threads and not one_thread_per_item):
        with torch.no_grad():
            yield from map(function, items)
        return
    inference = torch.is_inference_mode_enabled()  # like the gradient mode, a setting of each thread

    def call(item: T) -> R:
        with torch.inference_mode(inference), torch.no_grad():
            return function(item)

    with one_thread(), ThreadPoolExecutor(threads) as pool:  # new threads take over the limit
        yield from pool.map(call, items)


@contextlib.contextmanager
def all_threads(processes: int) -> Iterator[None]:
    """Context in which torch and BLAS use the threads of all ``processes`` on the machine, while the others wait.

    >>> threads = torch.get_num_threads()
    >>> with all_threads(processes=2):
    ...     torch.get_num_threads() == 2 * threads
    True
    """
    threads = torch.get_num_threads()
    if processes == 1:
        yield
        return
    torch.set_num_threads(processes * threads)
    try:
        with _controller().limit(limits=processes * threads):
            yield
    finally:
        torch.set_num_threads(threads)
