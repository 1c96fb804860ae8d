"""CPU time of ``cgmcr2 predict`` for ten images, compared with importing torch and encoding the images.

    python benchmarks/startup.py RUN IMAGES

RUN is a run folder on images, IMAGES a folder of ten images. Each program is a process of its own; the table shows the
smallest CPU time of several repeats, because wall-clock times on a shared machine say little.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

IMPORT_TORCH = "import torch"
ENCODE = """
import sys, time
import torch
start = time.process_time()
import numpy as np
from cgmcr2.encoders import load_encoder
from cgmcr2.images import Catalog, iter_decoded
encoder = load_encoder("bundled")
decoded = iter_decoded(Catalog.from_source(sys.argv[1]), encoder.preprocess, size=encoder.image_size)
encoder.encode(np.stack([image for _, image in decoded]))
print(time.process_time() - start)
"""


def cpu_seconds(*command: str) -> tuple[float, str]:
    """CPU time of a process and its children, and its output."""
    before = os.times()
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    after = os.times()
    used = after.children_user - before.children_user + after.children_system - before.children_system
    return used, output


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("images", type=Path)
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    times: dict[str, list[float]] = {"import torch": [], "encode": [], "predict": []}
    with tempfile.TemporaryDirectory() as folder:
        predict = ["predict", str(arguments.run), str(arguments.images), "--no-cache", "-q", "-o", f"{folder}/new.csv"]
        for _ in range(arguments.repeats):
            times["import torch"].append(cpu_seconds(sys.executable, "-c", IMPORT_TORCH)[0])
            times["encode"].append(float(cpu_seconds(sys.executable, "-c", ENCODE, str(arguments.images))[1]))
            times["predict"].append(cpu_seconds(sys.executable, "-m", "cgmcr2", *predict)[0])
    best = {name: min(values) for name, values in times.items()}
    for name, seconds in best.items():
        print(f"{name:14} {seconds:6.2f} s")
    print(f"ratio          {best['predict'] / (best['import torch'] + best['encode']):6.2f}")


if __name__ == "__main__":
    main()
