"""Cost of ``fit`` relative to k-means: wall time of ``CgMCR2(k).fit`` over that of ``KMeans(k, n_init=10).fit``.

    python benchmarks/fit_cost.py                     # all sizes
    python benchmarks/fit_cost.py --sizes 2000,10,512 # n, k, D
    python benchmarks/fit_cost.py --sizes 100000,1000,512 --initialisations 2

The rows are Gaussian clusters that overlap. Both run in the same process, one after the other. With
``--initialisations 2``, k-means has two initialisations, and its time is multiplied by five. ``CPU ratio`` is
the ratio of the processor times, which a busy machine changes less.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
from sklearn.cluster import KMeans

from cgmcr2 import CgMCR2

SIZES = [(200, 2, 512), (200, 50, 512), (2_000, 10, 512), (2_000, 100, 512), (4_000, 400, 512), (4_000, 1_000, 512),
         (20_000, 10, 512), (20_000, 200, 512), (50_000, 10, 768)]  # fmt: skip


def clocks() -> np.ndarray[Any, Any]:
    """Wall time and processor time in seconds."""
    return np.array([time.perf_counter(), time.process_time()])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", nargs="+", type=lambda text: tuple(map(int, text.split(","))), default=SIZES)
    parser.add_argument("--initialisations", type=int, default=10, help="of k-means; its time is scaled to ten")
    arguments = parser.parse_args()
    inits = arguments.initialisations
    CgMCR2(2).fit(np.random.default_rng(0).normal(size=(50, 8)))  # imports and warm-up
    print("| n | k | D | k-means, s | fit, s | ratio | CPU ratio | empty clusters |")
    print("| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for n, k, D in arguments.sizes:
        rng = np.random.default_rng(0)
        X = rng.normal(size=(k, D))[rng.integers(k, size=n)] + 2 * rng.normal(size=(n, D))
        X = (X / np.linalg.norm(X, axis=1, keepdims=True)).astype(np.float32)
        start = clocks()
        KMeans(k, n_init=inits, random_state=0).fit(X)
        peer, peer_cpu = (clocks() - start) * 10 / inits
        start = clocks()
        labels = CgMCR2(k).fit(X).labels_
        seconds, seconds_cpu = clocks() - start
        empty = k - len(np.unique(labels))
        ratios = f"{seconds / peer:.1f} | {seconds_cpu / peer_cpu:.1f}"
        print(f"| {n} | {k} | {D} | {peer:.1f} | {seconds:.1f} | {ratios} | {empty} |", flush=True)


if __name__ == "__main__":
    main()
