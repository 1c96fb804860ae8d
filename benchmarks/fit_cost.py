"""Cost of ``fit`` relative to k-means: wall time of ``CgMCR2(k).fit`` over that of ``KMeans(k, n_init=10).fit``.

    python benchmarks/fit_cost.py                     # all sizes
    python benchmarks/fit_cost.py --sizes 2000,10,512 # n, k, D
    python benchmarks/fit_cost.py --features cifar100-efficientnet-lite0.npz --sizes 2000,10 50000,1000
    python benchmarks/fit_cost.py --sizes 100000,1000,512 --initialisations 2

The rows are those of a feature file, repeated with noise if there are too few, or Gaussian clusters, which are so well
separated that k-means converges in a few iterations. Both run in the same process, one after the other. With
``--initialisations 2``, k-means has two initialisations, and its time is multiplied by five. ``CPU ratio`` is
the ratio of the processor times, which a busy machine changes less.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.cluster import KMeans

from cgmcr2 import CgMCR2
from cgmcr2._arrays import unit_rows

SIZES = [(200, 2, 512), (200, 50, 512), (2_000, 10, 512), (2_000, 100, 512), (4_000, 400, 512), (4_000, 1_000, 512),
         (20_000, 10, 512), (20_000, 200, 512), (50_000, 10, 768)]  # fmt: skip


def clocks() -> np.ndarray[Any, Any]:
    """Wall time and processor time in seconds."""
    return np.array([time.perf_counter(), time.process_time()])


def rows(features: Path | None, n: int, k: int, D: int = 0) -> np.ndarray[Any, Any]:
    """Unit rows (n, D) of a feature file, repeated with 5 % noise if there are too few, or of k Gaussian clusters."""
    rng = np.random.default_rng(0)
    if features is None:
        X = rng.normal(size=(k, D))[rng.integers(k, size=n)] + 2 * rng.normal(size=(n, D))
        return unit_rows(X).astype(np.float32)
    with np.load(features) as file:
        stored = unit_rows(file["features"].astype(np.float32))
    X = stored[np.arange(n) % len(stored)]
    X[len(stored) :] += 0.05 * unit_rows(rng.standard_normal(X[len(stored) :].shape, dtype=np.float32))
    return unit_rows(X)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", nargs="+", type=lambda text: tuple(map(int, text.split(","))), default=SIZES)
    parser.add_argument("--initialisations", type=int, default=10, help="of k-means; its time is scaled to ten")
    parser.add_argument("--features", type=Path, help="feature file; sizes are then n,k")
    arguments = parser.parse_args()
    inits = arguments.initialisations
    CgMCR2(2).fit(np.random.default_rng(0).normal(size=(50, 8)))  # imports and warm-up
    print("| n | k | D | k-means, s | fit, s | ratio | CPU ratio | empty clusters |")
    print("| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for n, k, *width in arguments.sizes:
        X = rows(arguments.features, n, k, *width)
        start = clocks()
        KMeans(k, n_init=inits, random_state=0).fit(X)
        peer, peer_cpu = (clocks() - start) * 10 / inits
        start = clocks()
        labels = CgMCR2(k).fit(X).labels_
        seconds, seconds_cpu = clocks() - start
        empty = k - len(np.unique(labels))
        ratios = f"{seconds / peer:.1f} | {seconds_cpu / peer_cpu:.1f}"
        print(f"| {n} | {k} | {X.shape[1]} | {peer:.1f} | {seconds:.1f} | {ratios} | {empty} |", flush=True)


if __name__ == "__main__":
    main()
