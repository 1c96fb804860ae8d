"""Embed images with Ray while its workers and the command itself are killed, and compare with the local engine.

    python benchmarks/ray_kills.py                  # each command starts Ray, which ends with the command
    python benchmarks/ray_kills.py --address auto   # workers of a running cluster on this machine

A random busy worker is killed whenever three more shards are done, so that the work progresses on a busy machine too.
After a third and two thirds of these kills the command is killed as well, and repeated. The files of both stores must
have the same bytes. The exit code is 1 if they differ, or if the work was done before all kills.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np
from PIL import Image

from cgmcr2.features import FeatureStore
from cgmcr2.features.shards import read_index, shard_numbers

SHARDS_PER_KILL = 3


def write_images(folder: Path, count: int) -> None:
    """Write random images of 96 x 96 pixels, every 400th damaged."""
    folder.mkdir()
    for number in range(count):
        path = folder / f"{number:05}.png"
        coarse = np.random.default_rng(number).integers(0, 256, (6, 6, 3), np.uint8)
        Image.fromarray(coarse).resize((96, 96), Image.Resampling.BICUBIC).save(path)
        if number % 400 == 200:
            path.write_bytes(path.read_bytes()[:60])


def busy_workers() -> list[int]:
    """Process ids of the Ray workers that compute a shard."""
    workers = []
    for process in Path("/proc").iterdir():
        try:
            if process.name.isdigit() and (process / "cmdline").read_bytes().startswith(b"ray::_write"):
                workers.append(int(process.name))
        except OSError:  # the process has ended
            continue
    return workers


def kill(process: int) -> bool:
    try:
        os.kill(process, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


def embed_with_kills(command: list[str], store: Path, kills: int) -> Counter[str]:
    """Repeat ``command`` until it succeeds, and return what was killed."""
    killed: Counter[str] = Counter()
    driver = subprocess.Popen(command)
    threshold = SHARDS_PER_KILL
    while driver.poll() is None:
        time.sleep(0.2)
        workers = busy_workers()
        done = len(list(store.glob("shard-*.json")))
        if done < threshold or not workers or not kill(random.choice(workers)):
            continue
        threshold = done + SHARDS_PER_KILL
        killed["workers"] += 1
        print(f"{time.strftime('%X')} killed worker {killed['workers']} after {done} shards", flush=True)
        if killed["workers"] in (kills // 3, 2 * kills // 3):
            kill(driver.pid)
            driver.wait()
            killed["commands"] += 1
            driver = subprocess.Popen(command)
    if driver.returncode:
        raise SystemExit(f"The command failed with code {driver.returncode} after these kills: {dict(killed)}.")
    return killed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=2000)
    parser.add_argument("--encoder", default="bundled")
    parser.add_argument("--shard-size", type=int, default=25)
    parser.add_argument("--kills", type=int, default=20, help="least number of killed workers")
    parser.add_argument("--address", help="Ray cluster on this machine")
    arguments = parser.parse_args()
    random.seed(0)
    with tempfile.TemporaryDirectory() as temporary:
        photos, local, store = (Path(temporary) / name for name in ("photos", "local", "store"))
        write_images(photos, arguments.images)
        embed = [sys.executable, "-m", "cgmcr2", "embed", str(photos), "--encoder", arguments.encoder]
        embed += ["--shard-size", str(arguments.shard_size)]
        start = time.perf_counter()
        subprocess.run([*embed, "-q", "-o", str(local)], check=True)
        local_seconds, start = time.perf_counter() - start, time.perf_counter()
        with_ray = [*embed, "-o", str(store), "--engine", "ray", "--workers", "2"]
        with_ray += ["--address", arguments.address] if arguments.address else []
        killed = embed_with_kills(with_ray, store, arguments.kills)
        ray_seconds = time.perf_counter() - start

        files = {path.name for path in store.iterdir() if not path.name.startswith(".")}
        same = files == {path.name for path in local.iterdir()}
        same = same and all((store / name).read_bytes() == (local / name).read_bytes() for name in files)
        indices = [read_index(store, number) for number in shard_numbers(store)]
        entries = [
            *(id for index in indices for id in index.ids),
            *(error[0] for index in indices for error in index.errors),
        ]
        features = FeatureStore.open(store)
        features.verify()
        print(f"Local engine: {local_seconds:.0f} s. Ray with kills: {ray_seconds:.0f} s, killed: {dict(killed)}.")
        print(f"{len(files)} files, same bytes: {same}. Temporary files left: {len(list(store.glob('.*')))}.")
        print(
            f"{len(features)} rows, {len(features.errors)} errors, {arguments.images - len(set(entries))} images lost, "
            f"{len(entries) - len(set(entries))} images twice."
        )
    return int(not same or killed["workers"] < arguments.kills or killed["commands"] < 2)


if __name__ == "__main__":
    sys.exit(main())
