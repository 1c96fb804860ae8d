"""Images for pretraining: decoded once to the size of the training, as uint8."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from cgmcr2._files import replacing
from cgmcr2._progress import progress_bar
from cgmcr2.distributed import ONE_PROCESS, Group
from cgmcr2.encoders.preprocessing import Preprocessing
from cgmcr2.images import Catalog
from cgmcr2.images.batches import iter_decoded

Images = npt.NDArray[np.uint8]

MEMORY = 2 << 30  # bytes; more pixels are kept in a file, of which the system caches what fits into memory
SMALL, LARGE = 32, 224  # sides in pixels for which ResNet-18 has a first layer


def choose_size(catalog: Catalog) -> int:
    """32 pixels if the first readable image is closer to that than to 224 (below 64 pixels), else 224."""
    for _, shape in iter_decoded(catalog, lambda image: min(image.size), num_workers=1, window=1):
        if isinstance(shape, int):
            return SMALL if shape < 2 * SMALL else LARGE
    raise ValueError(f"None of the {len(catalog)} files in {catalog.origin!r} could be read as an image.")


def load_images(
    catalog: Catalog,
    size: int,
    folder: Path,
    *,
    memory: int = MEMORY,
    progress: bool = False,
    group: Group = ONE_PROCESS,
) -> Images:
    """Decode images to uint8 (n, size, size, 3): shorter side resized to ``size``, central square.

    Unreadable images are left out. Up to ``memory`` bytes are kept in memory. More, and the images of several
    processes, are kept in a file in ``folder``, which is mapped to memory and reused by an interrupted run.
    """
    shape = (size, size, 3)
    if len(catalog) * size * size * 3 <= memory and group.size == 1:
        images = np.empty((len(catalog), *shape), np.uint8)
        count = 0
        for pixels in _decoded(catalog, size, progress):
            images[count] = pixels
            count += 1
        return images[:count]
    path = cache_path(folder, catalog, size)

    def write() -> None:
        if path.exists():
            return
        with replacing(path) as temporary, temporary.open("wb") as file:
            for pixels in _decoded(catalog, size, progress):
                file.write(pixels.tobytes())

    group.on_first(write)
    if not os.path.getsize(path):
        return np.empty((0, *shape), np.uint8)
    return np.memmap(path, np.uint8, mode="r").reshape(-1, *shape)


def cache_path(folder: Path, catalog: Catalog, size: int) -> Path:
    """File of the decoded images of ``catalog``."""
    return folder / f"images-{catalog.fingerprint[:16]}-{size}.bin"


def _decoded(catalog: Catalog, size: int, progress: bool) -> Iterator[Images]:
    preprocess = Preprocessing(size, size)
    with progress_bar(len(catalog), desc="Decoding", unit="images", enabled=progress) as bar:
        for _, pixels in iter_decoded(catalog, preprocess, size=size):
            bar.update()
            if not isinstance(pixels, str):
                yield pixels
