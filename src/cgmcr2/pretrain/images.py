"""Images for pretraining: decoded once to the size of the training, as uint8."""

from __future__ import annotations

import itertools
import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

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
FEW_IMAGES = 1000  # with fewer images, even a simple encoder that was trained on other images is better


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


def check_images(images: Any, size: int | None = None) -> Images:
    """``images`` as an array, if they are uint8 of shape (n, size, size, 3); by default, of any size.

    >>> check_images([np.zeros((2, 2, 3), np.uint8)]).shape
    (1, 2, 2, 3)
    """
    try:
        array: Images = np.asarray(images)
    except ValueError:
        raise ValueError("images must have one size, but theirs differ; resize them, or use load_images.") from None
    side = array.shape[1] if size is None and array.ndim == 4 else size
    if array.dtype != np.uint8 or array.ndim != 4 or array.shape[1:] != (side, side, 3):
        advice = "; move the channels last with images.transpose(0, 2, 3, 1)" if array.shape[1:2] == (3,) else ""
        name = "size" if size is None else size
        raise ValueError(
            f"images must be uint8 of shape (n, {name}, {name}, 3), but are {array.dtype} of shape {array.shape}"
            f"{advice}."
        )
    return array


def check_number(images: Images) -> int:
    """The number of images, which must be at least 2; warns if they are few."""
    n = len(images)
    if n < 2:
        raise ValueError(f"Pretraining needs at least 2 images, but got {n}; give several thousand.")
    if n < FEW_IMAGES:
        warnings.warn(
            f"{n} images are too few to train a useful encoder; give several thousand, or use a pretrained encoder, "
            "such as bundled.",
            UserWarning,
            stacklevel=3,
        )
    return n


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
