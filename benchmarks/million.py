"""A feature store of 1,281,167 x 768 float16: time, memory and growth of every command.

    python benchmarks/million.py store STORE                # write the store (2 GB)
    python benchmarks/million.py commands STORE             # time and peak memory of each command
    python benchmarks/million.py epoch STORE                # an epoch from the store relative to one from memory
    python benchmarks/million.py growth                     # slopes over 10,000 to 1,281,167 rows, k = 10

The rows are drawn from 1,000 overlapping Gaussian clusters. Times are CPU seconds of user and system, because the wall
time on a shared machine is that of its other users; set ``OMP_NUM_THREADS=1``. Every command runs in its own process,
so the peak resident memory is that of this command, torch included.
"""

from __future__ import annotations

import argparse
import math
import os
import resource
import shutil
import tempfile
import time
import traceback
from array import array
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

ROWS, DIM, CLUSTERS = 1_281_167, 768, 1_000
SIZES = (10_000, 100_000, ROWS)


class Blobs:
    """Rows of overlapping Gaussian clusters, drawn when they are read."""

    def __init__(self, rows: int, dim: int = DIM, clusters: int = CLUSTERS) -> None:
        self.shape = (rows, dim)
        self.centres = np.random.default_rng(0).standard_normal((clusters, dim), dtype=np.float32)

    def __getitem__(self, rows: slice) -> npt.NDArray[np.float32]:
        start, stop, _ = rows.indices(self.shape[0])
        rng = np.random.default_rng(start)
        centres = self.centres[rng.integers(len(self.centres), size=stop - start)]
        return centres + 2 * rng.standard_normal(centres.shape, dtype=np.float32)


class Cost(NamedTuple):
    """CPU seconds and peak resident memory of a process."""

    seconds: float
    gigabytes: float


def measure(function: Callable[[], object]) -> Cost:
    """Call ``function`` in a new process."""
    child = os.fork()
    if not child:
        status = 1
        try:
            function()
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    _, status, usage = os.wait4(child, 0)
    if status:
        raise SystemExit("A command has failed; see above.")
    return Cost(usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1e6)


def command(*words: object) -> Callable[[], object]:
    """Return a function that runs ``cgmcr2`` with these arguments."""

    def run() -> None:
        from cgmcr2.cli import run

        if code := run(*words, "--quiet"):
            raise SystemExit(code)

    return run


def set_options(settings: list[str]) -> list[str]:
    """Return the options of ``cgmcr2 fit`` for these settings."""
    return [word for setting in settings for word in ("--set", setting)]


def write_store(path: Path, rows: int = ROWS) -> None:
    """Write ``rows`` rows; ids, encoder and preprocessing are those of :func:`tiny_images` and :func:`encoder`."""
    from cgmcr2.features.extract import _default_shard_size
    from cgmcr2.features.manifest import Manifest, prepare_store
    from cgmcr2.features.shards import ShardIndex, write_shard
    from cgmcr2.features.store import FeatureStore
    from cgmcr2.images import DECODE_VERSION

    size = _default_shard_size(rows)
    model = encoder()
    preprocessing = f"decoding {DECODE_VERSION} for {model.image_size} px"
    manifest = Manifest(model.name, model.fingerprint, preprocessing, DIM, "float16", size)
    prepare_store(path, manifest, must_be_new=True)
    blobs = Blobs(rows)
    runs: list[tuple[int, int, int]] = []
    for number, start in enumerate(range(0, rows, size)):
        block = blobs[start : start + size].astype(np.float16)
        ids = [f"{row}.jpg" for row in range(start, start + len(block))]
        zeros = [0] * len(block)
        write_shard(path, number, block, ShardIndex(ids, zeros, zeros, identity=manifest.identity))
        runs.append((number, 0, len(block)))
    manifest.runs = runs
    manifest.write(path)
    print(f"{FeatureStore.open(path)}", flush=True)


def encoder() -> Any:
    """An encoder that costs nothing: the mean colour of the image, repeated."""

    def encode(batch: npt.NDArray[np.uint8]) -> npt.NDArray[np.float32]:
        return np.repeat(batch.mean(axis=(1, 2)), DIM // 3, axis=1).astype(np.float32)

    return SimpleNamespace(name="mean", fingerprint="mean", dim=DIM, image_size=8, preprocess=np.asarray, encode=encode)


def tiny_images(rows: int) -> Any:
    """A catalog of ``rows`` images of 8 x 8 pixels that are made when they are read."""
    from cgmcr2.images import Catalog
    from cgmcr2.images.folder import Listing

    pixels = np.random.default_rng(0).integers(0, 255, (256, 8, 8, 3), dtype=np.uint8)
    source = SimpleNamespace(sequential=False, load=lambda index, id: pixels[index % 256])
    zeros = array("q", bytes(8 * rows))
    return Catalog(Listing([f"{row}.jpg" for row in range(rows)], zeros, zeros), source, "tiny images")


def embed(path: Path, rows: int) -> None:
    """Embed the tiny images into the store at ``path``."""
    from cgmcr2.features import extract

    extract(tiny_images(rows), encoder(), path, dtype="float16", progress=False)


def commands(store: Path, clusters: int, settings: list[str]) -> None:
    """Print time and peak memory of each command on ``store``."""
    from cgmcr2.features import FeatureStore

    rows = len(FeatureStore.open(store))
    start = time.perf_counter()
    FeatureStore.open(store)
    print(f"open: {time.perf_counter() - start:.3f} s", flush=True)
    folder = Path(tempfile.mkdtemp(dir=store.parent))
    run, table = folder / "run", folder / "labels.csv"
    copy = folder / "copy"
    shutil.copytree(store, copy, copy_function=os.link)
    more = Blobs(10_000)
    steps: dict[str, Callable[[], object]] = {
        "import torch": lambda: __import__("torch"),
        "verify": command("doctor", store),
        "append 10,000 rows": lambda: FeatureStore.open(copy).append(more, [f"new {row}" for row in range(10_000)]),
        "compact": lambda: FeatureStore.open(copy).compact(),
        "embed 1,000 new images": lambda: embed(copy, rows + 1_000),
        "fit": command("fit", store, "-k", clusters, "-o", run, *set_options(settings)),
        "predict": command("predict", run, store, "-o", table),
        "report": command("report", run),
        "export": command("export", run, "--to", "csv", "-o", folder / "table.csv"),
    }
    try:
        print(f"{rows:,} x {DIM}, k = {clusters}\n\n| command | CPU s | peak GB |\n| --- | ---: | ---: |")
        for name, step in steps.items():
            cost = measure(step)
            print(f"| {name} | {cost.seconds:.1f} | {cost.gigabytes:.2f} |", flush=True)
        size = sum(file.stat().st_size for file in run.rglob("*") if file.is_file())
        print(f"run folder: {size / 1e6:,.0f} MB, page: {(run / 'report.html').stat().st_size / 1e6:.1f} MB")
    finally:
        shutil.rmtree(folder)


def epoch(path: Path, share: float, parts: int) -> None:
    """Print the CPU time of training from the store relative to memory, in alternating parts of an epoch."""
    from cgmcr2.features import FeatureStore
    from cgmcr2.training import resolve, train

    store = FeatureStore.open(path)
    X = np.concatenate([np.load(file) for file in sorted(path.glob("shard-*.npy"))])  # float16
    half = share / parts / 2
    stages = {"warmup_epochs": half, "finetune_epochs": half}
    settings = resolve("paper", len(X), 10, DIM, {"hidden_dim": 256, "batch_size": 2048, **stages})
    seconds = {"memory": 0.0, "store": 0.0}
    for part in range(parts + 1):
        for name, source in (("memory", X), ("store", store)):
            start = time.process_time()
            train(source, 10, settings, seed=part)
            if part:  # the first part warms up, and the first read of a shard verifies it
                seconds[name] += time.process_time() - start
    steps = parts * math.ceil(share / parts * len(store) / 2048)
    print(
        f"{share:g} epochs of {len(store):,} x {DIM} in batches of 2,048 (about {steps} steps): "
        f"{seconds['store']:.1f} s from the store / {seconds['memory']:.1f} s from memory = "
        f"{seconds['store'] / seconds['memory']:.3f}"
    )


def growth(sizes: list[int], clusters: int, settings: list[str], folder: Path) -> None:
    """Print time and memory of embed, fit, predict and report at several sizes, and the slopes."""
    costs: dict[str, list[Cost]] = {}
    for rows in sizes:
        store, run = folder / f"store-{rows}", folder / f"run-{rows}"
        if not store.exists():
            measure(lambda store=store, rows=rows: write_store(store, rows))  # type: ignore[misc]
        target = folder / f"embed-{rows}"
        steps: dict[str, Callable[[], object]] = {
            "embed": lambda target=target, rows=rows: embed(target, rows),  # type: ignore[misc]
            "fit": command("fit", store, "-k", clusters, "-o", run, *set_options(settings)),
            "predict": command("predict", run, store, "-o", folder / "labels.csv"),
            "report": command("report", run),
        }
        for name, step in steps.items():
            cost = measure(step)
            costs.setdefault(name, []).append(cost)
            print(f"{rows:>9,} {name:8} {cost.seconds:8.1f} s {cost.gigabytes:6.2f} GB", flush=True)
        shutil.rmtree(run)
        shutil.rmtree(target)
    for name, values in costs.items():
        slope = np.polyfit(np.log(sizes), np.log([cost.seconds for cost in values]), 1)[0]
        print(f"{name}: slope {slope:.2f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["store", "commands", "epoch", "growth"])
    parser.add_argument("store", type=Path, nargs="?", help="folder of the store; growth: folder for temporary files")
    parser.add_argument("--rows", type=int, nargs="+", help="rows of the store, or sizes of growth")
    parser.add_argument("-k", type=int, help="clusters; default: 1000 for commands, 10 for growth")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="setting of fit")
    parser.add_argument("--share", type=float, default=1.0, help="epochs to measure")
    parser.add_argument("--parts", type=int, default=10, help="parts of the epoch, alternating")
    options = parser.parse_args()
    if options.what == "growth":
        folder = options.store or Path(tempfile.mkdtemp())
        growth(options.rows or list(SIZES), options.k or 10, options.set, folder)
    elif options.store is None:
        parser.error("give the folder of the store")
    elif options.what == "store":
        write_store(options.store, (options.rows or [ROWS])[0])
    elif options.what == "commands":
        commands(options.store, options.k or CLUSTERS, options.set)
    else:
        epoch(options.store, options.share, options.parts)
    print(f"peak memory of this process: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6:.2f} GB")


if __name__ == "__main__":
    main()
