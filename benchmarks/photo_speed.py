"""Images per second of ``embed`` for 12-megapixel JPEG files, compared with decoding alone and with the encoder alone.

    python benchmarks/photo_speed.py                  # all cores
    python benchmarks/photo_speed.py --cores 1        # one core

The files are a photograph of scikit-learn, enlarged to 4000 x 3000 pixels with sensor noise. Decoding and the encoder
share the cores, so that ``embed`` cannot be faster than ``1 / (1 / decoding + 1 / encoder)``, the last row. The rounds
alternate, and the best one counts. On a shared machine, use ``--cpu``, which counts CPU time: the rates are then those
of one core.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # as the command line does

import numpy as np
import simplejpeg
import torch
from PIL import Image
from sklearn.datasets import load_sample_images

from cgmcr2.encoders import load_encoder
from cgmcr2.features import extract
from cgmcr2.images import Catalog, iter_decoded


def write_photos(folder: Path, count: int) -> Path:
    """Write ``count`` different JPEG files of 4000 x 3000 pixels, about 5 MB each."""
    folder.mkdir()
    rng = np.random.default_rng(0)
    china = Image.fromarray(load_sample_images().images[0]).resize((4000, 3000), Image.Resampling.BICUBIC)
    noise = rng.normal(0, 4, (3000, 4000, 3))
    pixels = np.asarray(china) + noise
    for number in range(count):
        shifted = np.roll(pixels, 97 * number, axis=1).clip(0, 255).astype(np.uint8)
        Image.fromarray(shifted).save(folder / f"{number:03}.jpg", quality=90)
    return folder


def measure(programs: dict[str, Callable[[], object]], rounds: int, clock: Callable[[], float]) -> dict[str, float]:
    """Smallest time of each program in alternating rounds, after one that is not counted."""
    best = dict.fromkeys(programs, float("inf"))
    for number in range(rounds + 1):
        for name, program in programs.items():
            start = clock()
            program()
            best[name] = min(best[name], clock() - start) if number else best[name]
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cores", type=int, help="number of cores to use; default: all")
    parser.add_argument("--cpu", action="store_true", help="measure CPU time")
    arguments = parser.parse_args()
    if arguments.cores:
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: arguments.cores])
    cores = len(os.sched_getaffinity(0))
    torch.set_num_threads(cores)
    encoder = load_encoder("bundled", device="cpu")
    size = encoder.image_size
    with tempfile.TemporaryDirectory() as temporary:
        folder = write_photos(Path(temporary) / "photos", arguments.images)
        catalog = Catalog.from_source(folder)
        files = sorted(folder.iterdir())
        print(
            f"{len(files)} files, {np.mean([file.stat().st_size for file in files]) / 1e6:.1f} MB each, {cores} cores"
        )
        batch = np.stack([image for _, image in iter_decoded(catalog, encoder.preprocess, size=size)])
        stores = (Path(temporary) / f"store-{number}" for number in range(1000))

        def in_threads(decode: Callable[[Path], object]) -> None:
            with ThreadPoolExecutor(cores) as pool:
                list(pool.map(decode, files))

        def pillow(file: Path) -> None:
            image = Image.open(file)
            image.draft("RGB", (size, size))
            image.load()

        def encode() -> None:
            for start in range(0, len(batch), 32):
                encoder.encode(batch[start : start + 32])

        programs: dict[str, Callable[[], object]] = {
            "Pillow, full size": lambda: in_threads(lambda file: Image.open(file).load()),
            "Pillow, draft": lambda: in_threads(pillow),
            "simplejpeg, scaled": lambda: in_threads(
                lambda file: simplejpeg.decode_jpeg(file.read_bytes(), min_height=size, min_width=size)
            ),
            "decoding as embed does": lambda: list(iter_decoded(catalog, encoder.preprocess, size=size)),
            "encoder": encode,
            "embed": lambda: extract(catalog, encoder, next(stores), progress=False),
        }
        best = measure(programs, arguments.rounds, time.process_time if arguments.cpu else time.perf_counter)
    rates = {name: len(files) / seconds for name, seconds in best.items()}
    decoding = max(rates["Pillow, draft"], rates["simplejpeg, scaled"])
    for name, rate in rates.items():
        print(f"{name:24} {rate:7.1f} images/s")
    slower = min(decoding, rates["encoder"])
    limit = 1 / (1 / decoding + 1 / rates["encoder"])
    print(f"embed / the slower of the fastest decoder and the encoder: {rates['embed'] / slower:.2f}")
    print(f"embed / limit of {limit:.1f} images/s, where both share the cores: {rates['embed'] / limit:.2f}")


if __name__ == "__main__":
    main()
