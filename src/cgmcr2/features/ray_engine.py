"""Embed shards with Ray: one task per shard, on this machine or on a cluster.

Ray schedules the tasks and repeats those whose worker or machine has died. Tasks need no state other than the files of
the store, so a killed driver is resumed like any interrupted extraction.
"""

from __future__ import annotations

import contextlib
import functools
import io
import logging
import os
import platform
import time
from collections.abc import Generator, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from cgmcr2._progress import ProgressBar
from cgmcr2.features.coverage import Part
from cgmcr2.features.shard_writer import ShardWriter
from cgmcr2.images.batches import available_cores

if TYPE_CHECKING:
    from cgmcr2.encoders.base import Encoder

logger = logging.getLogger(__name__)


def write_with_ray(
    writer: ShardWriter,
    encoder: Encoder,
    parts: Sequence[Part],
    bar: ProgressBar,
    *,
    workers: int | None = None,
    address: str | None = None,
    max_retries: int = 10,
) -> int:
    """Compute and write ``parts``, and return the number of rows.

    Parameters
    ----------
    writer : ShardWriter
        Writes the shards in the workers.
    encoder : Encoder
        Encoder, which the workers load by its name.
    parts : sequence of Part
        The shards.
    bar : ProgressBar
        Shows the progress.
    workers : int, optional
        Largest number of shards that are computed at the same time; default: all that the cluster has resources for.
    address : str, optional
        Address of the cluster; default: a cluster on this machine, which ends with this call.
    max_retries : int
        How often a shard is repeated whose worker has died. If it dies each time, an image probably crashes it.
    """
    if workers is not None and workers < 1:
        raise ValueError(f"The number of workers must be at least 1, but is {workers}.")
    try:
        import ray
    except ImportError as error:
        raise ImportError("The engine ray needs Ray: pip install 'cgmcr2[ray]'.") from error
    crashed: list[int] = []
    rows, images, seconds = 0, 0, 0.0
    with _connected(ray, address, workers):
        cpus, gpus = _task_resources(ray.cluster_resources())
        task = ray.remote(max_retries=max_retries, num_cpus=cpus, num_gpus=gpus)(_write)
        arguments = ray.put((writer, encoder.name, cpus))
        with contextlib.closing(_finished_tasks(ray, task, arguments, parts, workers)) as finished:
            for part, reference in finished:
                try:
                    added, duration, worker = ray.get(reference)
                except ray.exceptions.RayTaskError as error:
                    raise error.cause from None  # the same error as without Ray
                except ray.exceptions.RayError:
                    crashed.append(part.number)
                    continue
                rows, images, seconds = rows + added, images + len(part.images), seconds + duration
                logger.debug("Shard %d: %.1f images/s by worker %s", part.number, len(part.images) / duration, worker)
                bar.set_postfix(per_worker=f"{images / seconds:.1f} images/s")
                bar.update(len(part.images))
    if crashed:
        raise ChildProcessError(
            f"The workers of {len(crashed)} shards, such as {crashed[0]}, died {max_retries + 1} times each: "
            "check the memory of the workers, then repeat the command; the other shards are done."
        )
    logger.info("Each worker embedded %.1f images/s", images / seconds)
    return rows


def _finished_tasks(
    ray: Any, task: Any, arguments: Any, parts: Sequence[Part], workers: int | None
) -> Generator[tuple[Part, Any], None, None]:
    """Yield each part with the reference of its finished task; at most ``workers`` tasks run at the same time."""
    waiting = iter(parts)
    running: dict[Any, Part] = {}
    try:
        while True:
            for part in waiting:
                running[task.remote(arguments, part)] = part
                if len(running) == workers:
                    break
            if not running:
                return
            (done,), _ = ray.wait(list(running))
            yield running.pop(done), done
    finally:
        for reference in running:  # after an error or Ctrl-C
            ray.cancel(reference, force=True)


def _write(arguments: tuple[ShardWriter, str, int], part: Part) -> tuple[int, float, str]:
    """Write a shard in a worker; return the number of rows, the seconds and the worker."""
    writer, name, threads = arguments
    encoder = _load_encoder(name)
    if encoder.fingerprint != writer.manifest.fingerprint:
        raise ValueError(
            f"The encoder {name} of a worker has other weights than that of the driver: use the same file."
        )
    start = time.perf_counter()
    rows = writer.write(encoder, [part], num_workers=threads)
    return rows, time.perf_counter() - start, f"{platform.node()}:{os.getpid()}"


@functools.cache
def _load_encoder(name: str) -> Encoder:
    """Load an encoder once per worker."""
    from cgmcr2.encoders import load_encoder

    return load_encoder(name)


def _task_resources(cluster: dict[str, float]) -> tuple[int, int]:
    """Return the cores and GPUs of a task: one core, or one GPU with its share of the cores if the cluster has GPUs.

    >>> _task_resources({"CPU": 2.0}), _task_resources({"CPU": 64.0, "GPU": 8.0})
    ((1, 0), (8, 1))
    """
    gpus = cluster.get("GPU", 0)
    return (max(1, int(cluster["CPU"] / gpus)), 1) if gpus else (1, 0)


@contextlib.contextmanager
def _connected(ray: Any, address: str | None, workers: int | None) -> Iterator[None]:
    """Connection to the cluster at ``address``, or a cluster on this machine that ends with the context."""
    if ray.is_initialized():  # by the caller, who also ends it
        yield
        return
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # Ray sends usage statistics by default
    local = {"num_cpus": workers or available_cores(), "include_dashboard": False} if address is None else {}
    try:
        ray.init(address or "local", log_to_driver=False, logging_level=logging.ERROR, **local)
    except Exception as error:  # Ray raises errors of many types, also plain exceptions
        action = f"connect to the Ray cluster {address!r}" if address else "start Ray on this machine"
        raise ConnectionError(f"Could not {action}: {str(error).splitlines()[0]}") from error
    try:
        with contextlib.redirect_stdout(_DebugLog()):  # Ray prints the deaths of workers to standard output
            yield
    finally:
        ray.shutdown()


class _DebugLog(io.TextIOBase):
    """Text stream that logs what is written to it with level DEBUG."""

    def write(self, text: str) -> int:
        if text.strip():
            logger.debug("%s", text.strip())
        return len(text)
