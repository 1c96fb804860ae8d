"""Decode many images in parallel and yield them in order."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from PIL import Image

from cgmcr2.images.catalog import Catalog, ImageItem
from cgmcr2.images.decode import decode_data, error_reason
from cgmcr2.images.limits import MAX_MEMBER_BYTES
from cgmcr2.images.sources import ImageData, is_remote

T = TypeVar("T")

_REMOTE_WORKERS = 16  # they mostly wait for the server


def iter_decoded(
    catalog: Catalog,
    transform: Callable[[Image.Image], T],
    *,
    indices: Iterable[int] | None = None,
    size: int | None = None,
    num_workers: int | None = None,
    window: int = 64,
) -> Generator[tuple[int, T | str], None, None]:
    """Yield ``(index, transform(image))`` in order, or ``(index, reason)`` for an image that cannot be read.

    Threads are used because Pillow releases the GIL while decoding; processes were measured to be no faster.

    Parameters
    ----------
    catalog : Catalog
        The images.
    transform : callable
        Applied to each decoded image in the worker threads.
    indices : iterable of int, optional
        Which images, in which order; default: all.
    size : int, optional
        Shorter side that the caller needs, see :func:`cgmcr2.images.decode`.
    num_workers : int, optional
        Number of threads; default: one per available core, at most 8, and 16 for images on a server.
    window : int
        Largest number of results kept in memory for a slow consumer.

    Examples
    --------
    >>> import tempfile
    >>> folder = tempfile.mkdtemp()
    >>> Image.new("RGB", (8, 6)).save(folder + "/a.png")
    >>> _ = open(folder + "/b.png", "w")
    >>> list(iter_decoded(Catalog.from_source(folder), lambda image: image.size))
    [(0, (8, 6)), (1, 'the file is empty')]
    """
    default_workers = _REMOTE_WORKERS if is_remote(catalog.source) else min(8, available_cores())
    workers = default_workers if num_workers is None else num_workers
    if workers < 1 or window < 1:
        raise ValueError(f"num_workers and window must be at least 1, but they are {workers} and {window}.")

    def decode_and_transform(item: ImageItem, data: ImageData | None) -> T | str:
        try:
            return transform(decode_data(item.load() if data is None else data, size))
        except Exception as error:  # damaged files raise nearly any type, also struct.error or SyntaxError
            return error_reason(error)

    pending: deque[tuple[ImageItem, Future[T | str] | str]] = deque()
    pending_bytes = 0  # limits the memory for compressed streams, which this thread reads in order
    pool = ThreadPoolExecutor(workers, thread_name_prefix="decode")

    def next_result() -> tuple[int, T | str]:
        nonlocal pending_bytes
        item, result = pending.popleft()
        pending_bytes -= item.size
        return item.index, result if isinstance(result, str) else result.result()

    try:
        for index in range(len(catalog)) if indices is None else indices:
            item = catalog[index]
            result: Future[T | str] | str
            try:
                data = item.load() if catalog.source.sequential else None
                result = pool.submit(decode_and_transform, item, data)
            except Exception as error:
                result = error_reason(error)
            pending.append((item, result))
            pending_bytes += item.size
            while len(pending) >= window or (catalog.source.sequential and pending_bytes > MAX_MEMBER_BYTES):
                yield next_result()
        while pending:
            yield next_result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def available_cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
