from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

from cgmcr2.training.batches import Batches
from cgmcr2.training.reader import BatchReader


def test_batches_from_memory_and_from_disk_are_equal(X: np.ndarray[Any, Any], tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", X)
    on_disk = np.load(tmp_path / "x.npy", mmap_mode="r")
    batches, device = Batches(len(X), 3, seed=0), torch.device("cpu")
    with BatchReader(X, batches, device, 6) as memory, BatchReader(on_disk, batches, device, 6) as disk:
        for step in (0, 1, 2, 5):  # also without the step read ahead
            expected = torch.from_numpy(X[batches.rows(step)])
            assert torch.equal(memory.read(step), expected)
            assert torch.equal(disk.read(step), expected)
