"""Catalogs of pixel arrays in memory, and of images selected from other catalogs."""

from __future__ import annotations

import re
import zlib
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cgmcr2.images import Catalog
from cgmcr2.images.folder import Listing
from cgmcr2.images.sources import ImageData, Source


@dataclass
class PixelSource:
    """Images stored in arrays of shape (n, H, W) or (n, H, W, 3); indices continue from one array to the next."""

    arrays: Sequence[NDArray[np.uint8]]
    sequential: bool = False

    def load(self, index: int, id: str) -> NDArray[np.uint8]:
        for pixels in self.arrays:
            if index < len(pixels):
                image: NDArray[np.uint8] = pixels[index]
                return image
            index -= len(pixels)
        raise IndexError(f"there is no image {id}")


def pixel_catalog(origin: str, **parts: NDArray[np.uint8]) -> Catalog:
    """Return a catalog of the images in ``parts``.

    The ID of an image is ``part/row.png``; a checksum of its pixels takes the place of a modification time.

    >>> catalog = pixel_catalog("memory", train=np.zeros((2, 4, 4), np.uint8), test=np.ones((1, 4, 4), np.uint8))
    >>> catalog.ids, catalog[2].open().getpixel((0, 0))
    (['train/00000.png', 'train/00001.png', 'test/00000.png'], 1)
    """
    listing = Listing()
    for part, pixels in parts.items():
        for row, image in enumerate(np.ascontiguousarray(pixels)):
            listing.add(f"{part}/{row:05d}.png", image.nbytes, zlib.crc32(image))
    return Catalog(listing, PixelSource([np.ascontiguousarray(pixels) for pixels in parts.values()]), origin)


class SelectionSource:
    """Images selected from other sources.

    Image i is image ``indices[i]`` of ``sources[source_indices[i]]``, where its ID is ``ids[i]``.
    """

    def __init__(self) -> None:
        self.sources: list[Source] = []
        self.source_indices = array("H")
        self.indices = array("q")
        self.ids: list[str] = []
        self.sequential = False

    def load(self, index: int, id: str) -> ImageData:
        return self.sources[self.source_indices[index]].load(self.indices[index], self.ids[index])


def matching_images(catalog: Catalog, pattern: re.Pattern[str]) -> list[tuple[re.Match[str], int]]:
    """Return the match and the index of each image whose ID matches ``pattern``."""
    return [(match, index) for index, id in enumerate(catalog.ids) if (match := pattern.search(id))]


def selection_catalog(origin: str, images: Iterable[tuple[str, Catalog, int]]) -> Catalog:
    """Return a catalog of ``images``, each given as (new ID, catalog, index in that catalog).

    >>> digits = pixel_catalog("memory", a=np.arange(3, dtype=np.uint8).reshape(3, 1, 1))
    >>> selection = selection_catalog("memory", [("two", digits, 2), ("zero", digits, 0)])
    >>> selection.ids, selection[0].open().getpixel((0, 0))
    (['two', 'zero'], 2)
    """
    listing, source = Listing(), SelectionSource()
    previous: Catalog | None = None
    for id, catalog, index in images:
        if catalog is not previous:  # images of one catalog are usually consecutive
            source.sources.append(catalog.source)
            source.sequential |= catalog.source.sequential
            previous = catalog
        listing.add(id, int(catalog.sizes[index]), int(catalog.stamps[index]))
        source.source_indices.append(len(source.sources) - 1)
        source.indices.append(index)
        source.ids.append(catalog.ids[index])
    return Catalog(listing, source, origin)
