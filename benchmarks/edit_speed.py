"""Time of each kind of edit of a large run, in memory and with the synced line in its log.

    python benchmarks/edit_speed.py [--rows 100000] [--clusters 100]

The table shows the median of five edits: the CPU time of the edit in memory, and the wall-clock time of the sync.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from cgmcr2 import Edits
from synthetic_run import write_run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--clusters", type=int, default=100)
    arguments = parser.parse_args()
    n, k = arguments.rows, arguments.clusters
    sync, syncs = os.fsync, []

    def timed_sync(descriptor: int) -> None:
        start = time.perf_counter()
        sync(descriptor)
        syncs.append(time.perf_counter() - start)

    with (
        tempfile.TemporaryDirectory() as folder,
        mock.patch("os.fsync", timed_sync),
        Edits(write_run(Path(folder), n, k, images=False)) as edits,
    ):
        verbs: dict[str, Callable[[int], Any]] = {
            "rename": lambda i: edits.rename(i, f"name {i}"),
            "lock 100 images": lambda i: edits.lock(np.arange(100) + 100 * i),
            "move 100 images": lambda i: edits.move(np.arange(100) + 1000 + 100 * i, 3),
            "new cluster of 100": lambda i: edits.new(np.arange(100) + 2000 + 100 * i),
            "reject 2 for 100": lambda i: edits.reject(np.arange(100) + 3000 + 100 * i, [0, 1]),
            "split off 10": lambda i: edits.split(20 + i, [edits.clustering.rows(20 + i)[-10:]]),
            "merge two": lambda i: edits.merge([10 + 2 * i, 11 + 2 * i]),
            "refine a tenth": lambda i: edits.refine(np.arange(n // 10) + 5000, np.full(n // 10, 30 + i)),
            "undo": lambda i: edits.undo(),
            "redo": lambda i: edits.redo(),
        }
        print("| edit | in memory, ms CPU | sync, ms |\n| --- | ---: | ---: |")
        for name, call in verbs.items():
            times = []
            syncs.clear()
            for repeat in range(5):
                start = time.process_time()
                call(repeat)
                times.append(time.process_time() - start)
            print(f"| {name} | {1000 * np.median(times):.1f} | {1000 * np.median(syncs):.1f} |", flush=True)


if __name__ == "__main__":
    main()
