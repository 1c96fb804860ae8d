"""Many images decoded at once, handed out in order."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from PIL import Image

from cgmcr2.images.catalog import Catalog, ImageItem
from cgmcr2.images.decode import decode_loaded, reason
from cgmcr2.images.sources import MAX_MEMBER_BYTES, Loaded

T = TypeVar("T")


def iter_decoded(
    catalog: Catalog,
    transform: Callable[[Image.Image], T],
    *,
    indices: Iterable[int] | None = None,
    size: int | None = None,
    num_workers: int | None = None,
    window: int = 64,
) -> Generator[tuple[int, T | str], None, None]:
    """Yield ``(index, transform(image))`` for the images in order, or ``(index, reason)`` for one that cannot be read.

    Threads do the work: Pillow lets go of the interpreter while it decodes, and processes measured no faster. At most
    ``window`` results wait, however slow the consumer. ``indices``: which images (default: all); ``size``: see
    :func:`cgmcr2.images.decode`; ``num_workers``: threads (default: one a core, at most 8).

    >>> import tempfile
    >>> folder = tempfile.mkdtemp()
    >>> Image.new("RGB", (8, 6)).save(folder + "/a.png")
    >>> _ = open(folder + "/b.png", "w")
    >>> list(iter_decoded(Catalog.from_source(folder), lambda image: image.size))
    [(0, (8, 6)), (1, 'the file is empty')]
    """
    workers = min(8, available_cores()) if num_workers is None else num_workers
    if workers < 1 or window < 1:
        raise ValueError(f"num_workers and window must be at least 1, but they are {workers} and {window}.")

    def work(item: ImageItem, loaded: Loaded | None) -> T | str:
        try:
            return transform(decode_loaded(item.load() if loaded is None else loaded, size))
        except Exception as error:  # broken files raise nearly anything: struct.error, IndexError, SyntaxError ...
            return reason(error)

    pending: deque[tuple[ImageItem, Future[T | str] | str]] = deque()
    held = 0  # bytes of compressed streams that wait: those are read here, in order
    pool = ThreadPoolExecutor(workers, thread_name_prefix="decode")

    def next_result() -> tuple[int, T | str]:
        nonlocal held
        item, result = pending.popleft()
        held -= item.size
        return item.index, result if isinstance(result, str) else result.result()

    try:
        for index in range(len(catalog)) if indices is None else indices:
            item = catalog[index]
            result: Future[T | str] | str
            try:
                result = pool.submit(work, item, item.load() if catalog.source.sequential else None)
            except Exception as error:
                result = reason(error)
            pending.append((item, result))
            held += item.size
            while len(pending) >= window or (catalog.source.sequential and held > MAX_MEMBER_BYTES):
                yield next_result()
        while pending:
            yield next_result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def available_cores() -> int:
    """The number of cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
