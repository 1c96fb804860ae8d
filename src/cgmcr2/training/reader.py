"""Batches of features on the device, from memory if they fit, otherwise prefetched from disk."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from cgmcr2.distributed import ONE_PROCESS, Group
from cgmcr2.features.sources import FeatureSource, read_rows

from .batches import Batches, Indices


class BatchReader:
    """Reads this process's part of the batch of a step as a float32 tensor on ``device``.

    An array in memory is moved to the device once, if it fits. Any other source is read by a thread, one step ahead.
    """

    def __init__(
        self,
        source: FeatureSource,
        batches: Batches,
        device: torch.device,
        total_steps: int,
        group: Group = ONE_PROCESS,
    ) -> None:
        self.source, self.batches, self.device, self.total_steps = source, batches, device, total_steps
        self.group = group
        self._resident: Tensor | None = None
        if isinstance(source, np.ndarray) and not isinstance(source, np.memmap) and _fits(source, device):
            half = source.dtype == np.float16  # widened batch by batch
            self._resident = torch.from_numpy(source if half else read_rows(source, slice(None))).to(device)
        self._pool = None if self._resident is not None else ThreadPoolExecutor(1, thread_name_prefix="cgmcr2-read")
        self._ahead: dict[int, Future[Tensor]] = {}

    def read(self, step: int) -> Tensor:
        """This process's part ``X (n, D)`` of the batch of ``step``."""
        if self._resident is not None:
            rows = torch.from_numpy(self._rows(step)).to(self.device, non_blocking=True)
            return self._resident[rows].float()
        future = self._ahead.pop(step, None)
        X = future.result() if future else self._load(step)
        if step + 1 < self.total_steps and self._pool is not None:
            self._ahead[step + 1] = self._pool.submit(self._load, step + 1)
        return X.to(self.device, non_blocking=True)

    def _rows(self, step: int) -> Indices:
        rows = self.batches.rows(step)
        return rows[self.group.part(len(rows))]

    def _load(self, step: int) -> Tensor:
        X = torch.from_numpy(read_rows(self.source, self._rows(step)))
        return X.pin_memory() if self.device.type == "cuda" else X

    def __enter__(self) -> BatchReader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)


def _fits(array: npt.NDArray[Any], device: torch.device) -> bool:
    """Whether the array may be kept on the device: on a GPU, if it takes less than a third of the free memory."""
    if not array.flags.writeable or not array.dtype.isnative:
        return False  # torch cannot wrap read-only memory
    if device.type == "cuda":
        return bool(array.nbytes < torch.cuda.mem_get_info(device)[0] // 3)
    return True
