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
from cgmcr2.features import FeatureStore
from cgmcr2.features.shards import read_index, shard_numbers, verify_rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--dim", type=int, default=768)
    parser.add_argument("--shard-size", type=int, default=512, help="default of cgmcr2 embed for 100,000 images")
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
        start = time.perf_counter()
        numbers = shard_numbers(path)
        indices = [read_index(path, number) for number in numbers]
        reading = time.perf_counter() - start
        start = time.perf_counter()
        for number, index in zip(numbers, indices, strict=True):
            verify_rows(path, number, index)
        verifying = time.perf_counter() - start
        start = time.perf_counter()
        model.predict(FeatureStore.open(path))  # already verified: not again in this process
        predicting = time.perf_counter() - start
    print(f"read the indices  {reading:7.3f} s")
    print(f"verify the rows   {verifying:7.3f} s")
    print(f"open and predict  {predicting:7.3f} s, without verification")
    print(f"ratio of verifying rows and indices: {(reading + verifying) / predicting:.1%}")


if __name__ == "__main__":
    main()
