"""Embed damaged image files in a process with a memory limit: none may crash it, every file is a row or has a reason.

The files are JPEG, PNG, GIF, BMP, TIFF, WebP, ICO and PPM images with flipped bits, truncations, spliced blocks and
edited headers; the same seed writes the same files. Run by hand:

    python benchmarks/fuzz_images.py --files 10000 --memory 2048
"""

from __future__ import annotations

import argparse
import io
import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from PIL import Image

FORMATS: dict[str, list[dict[str, Any]]] = {
    "JPEG": [{}, {"progressive": True}, {"exif": b"Exif\0\0II*\0\x08\0\0\0\0\0\0\0\0\0"}],
    "PNG": [{}, {"compress_level": 0}, {"interlace": 1}],
    "GIF": [{}, {"save_all": True}],
    "BMP": [{}],
    "TIFF": [{}, {"compression": "tiff_lzw"}, {"compression": "jpeg"}, {"compression": "tiff_adobe_deflate"}],
    "WEBP": [{}, {"lossless": True}],
    "ICO": [{"sizes": [(32, 32)]}],
    "PPM": [{}],
}
MODES = {"JPEG": ["RGB", "L", "CMYK"], "PNG": ["RGB", "RGBA", "P", "I;16", "1"], "TIFF": ["RGB", "L", "CMYK", "F"]}
EXTREMES = (0, 1, 0x7F, 0x80, 0xFF)  # bytes that turn sizes and offsets into very small or very large ones


def seed_files() -> list[tuple[str, bytes]]:
    """One valid file for each format, mode and option."""
    x, y = np.meshgrid(np.linspace(0, 255, 48), np.linspace(0, 255, 40))
    colours = Image.fromarray(np.stack([x, y, 255 - x], axis=2).astype(np.uint8))
    grey16 = Image.fromarray((x * 257).astype(np.uint16))
    files = []
    for format, variants in FORMATS.items():
        for mode in MODES.get(format, ["RGB"]):
            for options in variants:
                image = grey16 if mode == "I;16" else colours.convert(mode)
                file = io.BytesIO()
                extra = {"append_images": [colours.rotate(90)]} if "save_all" in options else {}
                try:
                    image.save(file, format, **options, **extra)
                except (OSError, ValueError, KeyError):  # this option does not support the mode
                    continue
                files.append((format.lower(), file.getvalue()))
    return files


def mutate(data: bytes, other: bytes, random: np.random.Generator) -> bytes:
    """Damage a file: half of the files lightly and behind the header, so that the decoders see them."""
    broken = bytearray(data)
    if random.random() < 0.5:
        _flip_bits(broken, random, first=min(64, len(data) // 2), count=int(random.integers(1, 5)))
        return bytes(broken)
    for _ in range(int(random.integers(1, 4))):
        if broken:
            _damage(broken, other, random)
    return bytes(broken)


def _damage(broken: bytearray, other: bytes, random: np.random.Generator) -> None:
    position = int(random.integers(0, len(broken)))
    kind = int(random.integers(0, 6))
    if kind == 0:
        _flip_bits(broken, random, first=0, count=int(random.integers(1, 30)))
    elif kind == 1:  # truncation
        del broken[position:]
    elif kind == 2:  # a block of another file
        start = int(random.integers(0, len(other)))
        broken[position:position] = other[start : start + int(random.integers(1, 400))]
    elif kind == 3:  # a header with extreme values
        for index in random.integers(0, min(64, len(broken)), int(random.integers(1, 6))):
            broken[index] = EXTREMES[int(random.integers(0, len(EXTREMES)))]
    elif kind == 4:  # a repeated block
        broken[position:position] = broken[position : position + int(random.integers(1, 200))]
    else:  # a block of zeros
        broken[position : position + 32] = bytes(len(broken[position : position + 32]))


def _flip_bits(broken: bytearray, random: np.random.Generator, *, first: int, count: int) -> None:
    for index in random.integers(first, len(broken), count):
        broken[index] ^= 1 << int(random.integers(0, 8))


def write_files(folder: Path, count: int, seed: int) -> None:
    """Write ``count`` damaged files; their extensions are those of the formats before the damage."""
    random = np.random.default_rng(seed)
    seeds = seed_files()
    for number in range(count):
        extension, data = seeds[int(random.integers(0, len(seeds)))]
        other = seeds[int(random.integers(0, len(seeds)))][1]
        (folder / f"{number:06}.{extension}").write_bytes(mutate(data, other, random))


def embed(folder: Path, store: Path, memory: int) -> None:
    """Embed ``folder`` by mean colours in a process with ``memory`` MB of address space; print the figures as JSON."""
    import resource

    from cgmcr2.features import extract
    from cgmcr2.images import Catalog

    resource.setrlimit(resource.RLIMIT_AS, (memory * 2**20,) * 2)
    encoder: Any = SimpleNamespace(
        name="mean-colour",
        fingerprint="1",
        dim=3,
        image_size=32,
        preprocess=lambda image: np.asarray(image.resize((32, 32))),
        encode=lambda batch: batch.mean(axis=(1, 2)).astype(np.float32),
    )
    start = time.perf_counter()
    catalog = Catalog.from_source(folder)
    result = extract(catalog, encoder, store, progress=False)
    seconds = time.perf_counter() - start
    result.verify()
    assert set(result.ids) | {id for id, _ in result.errors} == set(catalog.ids)
    assert len(result) + len(result.errors) == len(catalog)
    assert all(reason.strip() and "\n" not in reason for _, reason in result.errors)
    reasons = Counter(reason.split(":")[0][:40] for _, reason in result.errors)
    figures = {
        "files": len(catalog),
        "embedded": len(result),
        "errors": len(result.errors),
        "out of memory": sum(reason == "out of memory" for _, reason in result.errors),
        "seconds": round(seconds, 1),
        "peak MB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        "reasons": dict(reasons.most_common(8)),
    }
    print(json.dumps(figures, indent=2))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--memory", type=int, default=2048, help="address space of the embedding process in MB")
    parser.add_argument("--embed", nargs=2, metavar=("FOLDER", "STORE"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.embed:
        embed(Path(options.embed[0]), Path(options.embed[1]), options.memory)
        return 0
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "files"
        folder.mkdir()
        write_files(folder, options.files, options.seed)
        command = [sys.executable, __file__, "--memory", str(options.memory)]
        code = subprocess.run(
            [*command, "--embed", str(folder), str(Path(temporary) / "store")], check=False
        ).returncode
    print(f"crashes: {int(code != 0)} (exit code {code})")
    return code


if __name__ == "__main__":
    sys.exit(main())
