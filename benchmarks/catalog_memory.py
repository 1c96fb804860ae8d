"""Memory of catalogs: bytes per image of a listing, and the peak while a large Parquet row group is read.

    python benchmarks/catalog_memory.py --images 1000000 --megabytes 600

A stub answers the S3 listing in pages of 1,000 objects. Tars and Parquet files are written to a temporary folder.
"""

from __future__ import annotations

import argparse
import gc
import io
import multiprocessing
import resource
import tarfile
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from cgmcr2.images import Catalog, storage


class StubS3:
    """Answers ``list_objects_v2`` for n objects."""

    protocol = ("s3",)

    def __init__(self, n: int) -> None:
        self.n = n

    def info(self, path: str) -> dict[str, Any]:
        return {"type": "directory"}

    def call_s3(self, method: str, ContinuationToken: str = "0", **_: Any) -> dict[str, Any]:
        start = int(ContinuationToken)
        stop = min(start + 1000, self.n)
        keys = (f"images/train/n{i % 1000:08}/n{i % 1000:08}_{i}.JPEG" for i in range(start, stop))
        entries = [{"Key": key, "Size": 110_000, "ETag": f'"{i:032x}"'} for i, key in enumerate(keys, start)]
        return {"Contents": entries, "IsTruncated": stop < self.n, "NextContinuationToken": str(stop)}


def rss() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


def measured(function: Callable[[], Any], queue: Any) -> None:
    gc.collect()
    before, start = rss(), time.perf_counter()
    value = function()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    gc.collect()
    queue.put((len(value), rss() - before, peak - before, time.perf_counter() - start))


def report(name: str, function: Callable[[], Any]) -> None:
    """Run a function that returns a catalog in a new process, and print its memory."""
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    process = context.Process(target=measured, args=(function, queue))
    process.start()
    n, kept, peak, seconds = queue.get()
    process.join()
    print(f"{name}: {n:,} images, {kept / n:.0f} bytes each, peak {peak / 2**20:.0f} MB, {seconds:.1f} s", flush=True)


def written(function: Callable[..., None], folder: Path, *arguments: int) -> Path:
    """Write files in a process of their own, whose memory is not counted, and return the folder."""
    process = multiprocessing.get_context("fork").Process(target=function, args=(folder, *arguments))
    process.start()
    process.join()
    return folder


def list_s3(n: int) -> Catalog:
    storage._filesystem = lambda url: (StubS3(n), url.partition("://")[2])  # type: ignore[assignment]
    return Catalog.from_source("s3://bucket/images")


def write_tars(folder: Path, n: int, shards: int = 10) -> None:
    folder.mkdir()
    for shard in range(shards):
        with tarfile.open(folder / f"{shard:05}.tar", "w") as archive:
            for number in range(n // shards):
                for suffix, size in ((".jpg", 600), (".json", 30)):
                    info = tarfile.TarInfo(f"{number:09}{suffix}")
                    info.size = size
                    archive.addfile(info, io.BytesIO(bytes(size)))


def write_parquet(folder: Path, n: int, size: int, shards: int = 10) -> None:
    """Write n random images of ``size`` bytes; each file has one row group."""
    folder.mkdir()
    data = np.random.default_rng(0).bytes(size)
    for shard in range(shards):
        parquet = pq.ParquetWriter(
            folder / f"{shard:05}.parquet", pa.schema({"jpg": pa.binary()}), use_dictionary=False
        )
        with parquet as writer:
            writer.write_table(pa.table({"jpg": [data] * (n // shards)}), row_group_size=n)


def read_all(folder: Path) -> Catalog:
    catalog = Catalog.from_source(folder)
    for item in catalog:
        item.load()
    return catalog


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--images", type=int, default=1_000_000)
    parser.add_argument("--megabytes", type=int, default=600)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        root = Path(temporary)
        report("S3 listing", lambda: list_s3(options.images))
        tars = written(write_tars, root / "tars", options.images // 5)
        report("listing of WebDataset tars", lambda: Catalog.from_source(tars))
        rows = written(write_parquet, root / "rows", options.images, 16)
        report("listing of Parquet", lambda: Catalog.from_source(rows))
        large = written(write_parquet, root / "large", options.megabytes * 10, 100_000, 1)
        report(f"reading one row group of {options.megabytes} MB", lambda: read_all(large))


if __name__ == "__main__":
    main()
