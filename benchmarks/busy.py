"""Time of ``cluster`` on the idle machine and next to busy loops, and CPU time of a small run.

    python benchmarks/busy.py PHOTOS           # about three minutes on two idle cores; PHOTOS has 500 images
    python benchmarks/busy.py PHOTOS --small   # only 10 photos

Idle and busy runs are separate processes. A busy run shares the machine with one endless loop per core. The bar is a
ratio of 3. The CPU time of the small run is also given without importing torch and without embedding; its bar is 3 s.
Wall times need an otherwise idle machine, so the load at the start is printed.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

BENCHMARKS = Path(__file__).resolve().parent
# Modules are compiled once, as pip does when it installs a package.
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}

# Like the command line, the script lets waiting threads sleep.
EMBED = """
import os, sys
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
import torch
from cgmcr2.datasets import open_images
from cgmcr2.encoders import load_encoder
from cgmcr2.features import extract
catalog, _ = open_images(sys.argv[1])
before = sum(os.times()[:4])
extract(catalog, load_encoder("bundled"), sys.argv[2])
print(sum(os.times()[:4]) - before)
"""
RATE = """
import os, sys, time
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
sys.path.insert(0, sys.argv[1])
from rate_speed import Setting, batch, value_and_gradients, cluster_coding_rate
Z, Pi = batch(Setting("ImageNet", 3000, 1000, 256, 1, "early"))
start = time.perf_counter()
value_and_gradients(cluster_coding_rate, Z, Pi)
print(time.perf_counter() - start)
"""


class Seconds(NamedTuple):
    """Wall time and CPU time (user and system) of a process."""

    wall: float
    cpu: float


def timed(*command: object) -> Seconds:
    """Run a command and return its times."""
    cpu, wall = sum(os.times()[2:4]), os.times().elapsed
    subprocess.run([str(argument) for argument in command], check=True, capture_output=True, env=ENVIRONMENT)
    return Seconds(os.times().elapsed - wall, sum(os.times()[2:4]) - cpu)


def printed(script: str, *arguments: object) -> float:
    """Run a Python script in a new process and return the number that it prints."""
    command = [sys.executable, "-c", script, *map(str, arguments)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True, env=ENVIRONMENT).stdout)


def median(runs: list[Seconds]) -> Seconds:
    return Seconds(*(statistics.median(values) for values in zip(*runs, strict=True)))


@contextlib.contextmanager
def busy_loops(count: int) -> Iterator[None]:
    """Context in which ``count`` other processes compute."""
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def cluster(photos: Path, k: int, scratch: Path, repeats: int) -> Seconds:
    """Median times of ``cgmcr2 cluster``, each run from the beginning."""
    runs = []
    for _ in range(repeats):
        shutil.rmtree(scratch / "run", ignore_errors=True)
        runs.append(timed(sys.executable, "-m", "cgmcr2", "cluster", photos, "-k", k, "-o", scratch / "run"))
    return median(runs)


def report(name: str, idle: float, busy: float) -> None:
    print(f"{name}: {idle:.1f} s idle, {busy:.1f} s busy, ratio {busy / idle:.2f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("photos", type=Path, help="folder of images")
    parser.add_argument("--small", action="store_true", help="only the runs on 10 photos")
    parser.add_argument("--loops", type=int, default=os.cpu_count(), help="busy loops (default: one per core)")
    arguments = parser.parse_args()
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.2f}, {arguments.loops} busy loops")

    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        ten = scratch / "ten"
        ten.mkdir()
        for photo in sorted(path for path in arguments.photos.iterdir() if path.is_file())[:10]:
            shutil.copy(photo, ten)

        cluster(ten, 3, scratch, 1)  # compiles modules and fills the cache of the file system
        torch = median([timed(sys.executable, "-c", "import torch") for _ in range(3)]).cpu
        embedding = statistics.median(printed(EMBED, ten, scratch / f"store{i}") for i in range(3))
        idle = cluster(ten, 3, scratch, 3)
        print(
            f"10 photos, idle: {idle.cpu:.2f} s of CPU time, of which importing torch {torch:.2f} and embedding "
            f"{embedding:.2f}; the rest is {idle.cpu - torch - embedding:.2f} s",
            flush=True,
        )
        with busy_loops(arguments.loops):
            busy = cluster(ten, 3, scratch, 3)
        report("cluster -k 3, 10 photos", idle.wall, busy.wall)
        if arguments.small:
            return

        idle = cluster(arguments.photos, 10, scratch, 1)
        with busy_loops(arguments.loops):
            busy = cluster(arguments.photos, 10, scratch, 1)
        report("cluster -k 10, all photos", idle.wall, busy.wall)

        idle_rate = printed(RATE, BENCHMARKS)
        with busy_loops(arguments.loops):
            busy_rate = printed(RATE, BENCHMARKS)
        report("cluster-wise coding rate, n 3000, k 1000, d 256", idle_rate, busy_rate)


if __name__ == "__main__":
    main()
