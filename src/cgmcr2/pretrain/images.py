"""Images for pretraining: decoded once to the size of the training, as uint8."""

from __future__ import annotations

import itertools
import os
import warnings
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
SIZE_IMAGES = 32  # images whose median size chooses the default
SMALL, LARGE = 32, 224  # sides in pixels for which ResNet-18 has a first layer


def choose_size(catalog: Catalog) -> int:
    """32 pixels if the first readable images are smaller than 64 pixels (their median), else 224."""
    sides = (side for _, side in iter_decoded(catalog, lambda image: min(image.size), num_workers=1, window=1))
    first = list(itertools.islice((side for side in sides if isinstance(side, int)), SIZE_IMAGES))
    if not first:
        raise ValueError(f"None of the {len(catalog)} files in {catalog.origin!r} could be read as an image.")
    return SMALL if np.median(first) < 2 * SMALL else LARGE


def load_images(
    catalog: Catalog,
    size: int,
    folder: str | os.PathLike[str] = ".",
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
    path = cache_path(Path(folder), catalog, size)

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
    preprocess, errors = Preprocessing(size, size), list[str]()
    with progress_bar(len(catalog), desc="Decoding", unit="images", enabled=progress) as bar:
        for position, pixels in iter_decoded(catalog, preprocess, size=size):
            bar.update()
            if isinstance(pixels, str):
                errors.append(f"{catalog.ids[position]}: {pixels}")
            else:
                yield pixels
    if errors:
        warnings.warn(
            f"{len(errors):,} of {len(catalog):,} images cannot be read and are left out ({errors[0]}).",
            UserWarning,
            stacklevel=2,
        )
