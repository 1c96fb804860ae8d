"""Whether ``auto`` collapses at any size: clusters in use and their balance over n, k, D and the batch size.

    python benchmarks/sizes.py                       # all sizes
    python benchmarks/sizes.py --sizes 200,2,32,0    # n, k, D, batch size (0: the preset's)

The rows are CIFAR-100 features (from ``../shared/data``; synthetic blobs if absent), with noise if some are drawn
twice, projected at random to D columns. All rows are fitted and predicted; labels are not used. Balance is the entropy
of the cluster sizes divided by log k: 1 for equal sizes, 0 for a single cluster.
"""

from __future__ import annotations

import argparse
import time
import warnings
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.datasets import make_blobs

from accuracy import SHARED
from cgmcr2 import CgMCR2
from cgmcr2.consensus.partitions import size_entropy

SIZES = [  # n, k, D, batch size
    (200, 2, 32, 0), (200, 50, 1280, 64), (200, 100, 64, 0), (500, 10, 4096, 7), (1000, 3, 32, 0),
    (1000, 20, 512, 2), (2000, 2, 1280, 0), (2000, 200, 512, 0), (5000, 20, 4096, 5000), (5000, 200, 32, 256),
    (20000, 2, 64, 0), (20000, 200, 256, 0), (50000, 10, 1280, 0), (50000, 200, 128, 0),
]  # fmt: skip


def features(n: int, D: int) -> npt.NDArray[Any]:
    """Return n rows of width D."""
    path = SHARED / "cifar100-efficientnet-lite0.npz"
    rng = np.random.default_rng(0)
    if path.exists():
        with np.load(path) as file:
            X = file["features"].astype(np.float32)
    else:
        X = make_blobs(25_000, 256, centers=100, random_state=0)[0].astype(np.float32)
    rows = rng.choice(len(X), n, replace=n > len(X))
    X = X[rows]
    if n > len(np.unique(rows)):
        X = X + 0.2 * X.std(0) * rng.standard_normal(X.shape, dtype=np.float32)
    if X.shape[1] == D:
        return X
    return X @ (rng.standard_normal((X.shape[1], D)) / np.sqrt(D)).astype(np.float32)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", nargs="+", metavar="n,k,D,batch", help="sizes to run; default: all")
    texts = parser.parse_args().sizes
    warnings.simplefilter("ignore")
    print("| n | k | D | batch | clusters in use | smallest, largest | balance | seconds |")
    print("| ---: | ---: | ---: | ---: | ---: | --- | ---: | ---: |")
    for n, k, D, batch in [tuple(map(int, text.split(","))) for text in texts] if texts else SIZES:
        start = time.perf_counter()
        settings = {"batch_size": batch} if batch else None
        labels = CgMCR2(k, random_state=0, settings=settings).fit_predict(features(n, D))
        sizes = np.bincount(labels, minlength=k)
        cells = (
            n,
            k,
            D,
            batch or "auto",
            (sizes > 0).sum(),
            f"{sizes.min()}, {sizes.max()}",
            f"{size_entropy(labels, k):.3f}",
        )
        print(f"| {' | '.join(map(str, cells))} | {time.perf_counter() - start:.0f} |", flush=True)


if __name__ == "__main__":
    main()
