"""Cost of verifying a feature store, relative to opening it and predicting all rows, in one process.

python benchmarks/store_verification.py --rows 100000 --dim 768
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np

from cgmcr2 import CgMCR2
from cgmcr2.features import FeatureStore, shards


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--dim", type=int, default=768)
    parser.add_argument("--shard-size", type=int, default=512, help="default of cgmcr2 embed for 100,000 images")
    parser.add_argument("--repeats", type=int, default=7)
    options = parser.parse_args()
    random = np.random.default_rng(0)
    centres = random.normal(size=(10, options.dim)).astype(np.float32)
    X = centres[random.integers(0, 10, options.rows)]
    X += random.standard_normal(X.shape, dtype=np.float32)
    model = CgMCR2(n_clusters=10, random_state=0).fit(X[:2000])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "store"
        FeatureStore.create(path, X, shard_size=options.shard_size)
        del X
        ratios = []
        for _ in range(options.repeats):
            verifying, predicting = measure(model, path)
            ratios.append(verifying / predicting)
            print(f"verify {verifying:.3f} s, open and predict without verification {predicting:.3f} s", flush=True)
    print(f"median ratio: {np.median(ratios):.1%}")


def measure(model: CgMCR2, path: Path) -> tuple[float, float]:
    """Seconds to verify all rows as the first read does, and to open the store and predict all rows after that."""
    shards._verified.clear()
    start = time.perf_counter()
    for number in shards.shard_numbers(path):
        shards.verify_rows(path, number, shards._read(path, number, shards.RowsDigest))
    verified = time.perf_counter()
    model.predict(FeatureStore.open(path))
    return verified - start, time.perf_counter() - verified


if __name__ == "__main__":
    main()
