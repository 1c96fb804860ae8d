"""Join the processes that ``torchrun`` started."""

from __future__ import annotations

import atexit
import contextlib
import datetime
import logging
import os
import signal
import threading
import warnings
from collections.abc import Iterator
from types import FrameType

import torch
import torch.distributed as dist

from .group import ONE_PROCESS, Group, ProcessError, TorchGroup

# How long a process waits for the first one, which may embed many images. A process that ends is noticed at once.
TIMEOUT = datetime.timedelta(days=1)

LOST = "Another process of this training has ended; repeat the command to resume from the last checkpoint."


@contextlib.contextmanager
def process_group() -> Iterator[Group]:
    """The processes that train together: those of ``torchrun`` or of torch's process group, else this one alone.

    If another process ends, ``ProcessError`` is raised. Only the first process shows warnings and log messages.

    >>> with process_group() as group:
    ...     group.rank, group.size
    (0, 1)
    """
    group = _join()
    with contextlib.ExitStack() as stack:
        if group.size > 1 and threading.current_thread() is threading.main_thread():
            stack.callback(signal.signal, signal.SIGTERM, signal.signal(signal.SIGTERM, _end))
        if group.rank > 0:
            stack.enter_context(_silence())
        try:
            yield group
        except RuntimeError as error:
            if group.size > 1 and _is_lost_connection(error):
                raise ProcessError(LOST) from error
            raise


def _join() -> Group:
    if not dist.is_available():
        return ONE_PROCESS
    if dist.is_torchelastic_launched() and int(os.environ["WORLD_SIZE"]) > 1 and not dist.is_initialized():
        if torch.cuda.is_available():
            torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        dist.init_process_group("cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo", timeout=TIMEOUT)
        atexit.register(dist.destroy_process_group)  # otherwise gloo may abort when the other processes end first
    if not dist.is_initialized() or dist.get_world_size() == 1:
        return ONE_PROCESS
    return TorchGroup(int(os.environ.get("LOCAL_WORLD_SIZE", "1")))


def _end(number: int, frame: FrameType | None) -> None:
    """Handle SIGTERM, which ``torchrun`` sends to all processes when one has failed."""
    raise ProcessError(LOST)


def _is_lost_connection(error: RuntimeError) -> bool:
    return isinstance(error, dist.DistError) or "gloo" in str(error)


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """Context without warnings and with error messages only; the first process shows the same ones."""
    logger = logging.getLogger("cgmcr2")
    level = logger.level
    logger.setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            yield
        finally:
            logger.setLevel(level)
