"""Catalogs made by the data sets: of pixels in memory, and of images chosen from other catalogs in a new order."""

from __future__ import annotations

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
    """Images that are rows of arrays in memory, ``(n, H, W)`` or ``(n, H, W, 3)``, one array after the other."""

    arrays: Sequence[NDArray[np.uint8]]
    sequential: bool = False

    def load(self, index: int, id: str) -> NDArray[np.uint8]:
        for pixels in self.arrays:
            if index < len(pixels):
                row: NDArray[np.uint8] = pixels[index]
                return row
            index -= len(pixels)
        raise IndexError(f"there is no image {id}")


def pixel_catalog(origin: str, **parts: NDArray[np.uint8]) -> Catalog:
    """The rows of arrays as a catalog. The id, ``part/row.png``, can name a file; the stamp is of the pixels.

    >>> catalog = pixel_catalog("memory", train=np.zeros((2, 4, 4), np.uint8), test=np.ones((1, 4, 4), np.uint8))
    >>> catalog.ids, catalog[2].open().getpixel((0, 0))
    (['train/00000.png', 'train/00001.png', 'test/00000.png'], 1)
    """
    listing = Listing()
    for part, pixels in parts.items():
        for number, row in enumerate(np.ascontiguousarray(pixels)):
            listing.add(f"{part}/{number:05d}.png", row.nbytes, zlib.crc32(row))
    return Catalog(listing, PixelSource([np.ascontiguousarray(pixels) for pixels in parts.values()]), origin)


class ChosenSource:
    """Images of other sources: for each the number of its source, its place and its name there."""

    def __init__(self) -> None:
        self.sources: list[Source] = []
        self.which = array("H")
        self.places = array("q")
        self.names: list[str] = []
        self.sequential = False

    def load(self, index: int, id: str) -> ImageData:
        return self.sources[self.which[index]].load(self.places[index], self.names[index])


def chosen_catalog(origin: str, images: Iterable[tuple[str, Catalog, int]]) -> Catalog:
    """The images at (new id, catalog, place in that catalog), in this order, as one catalog.

    >>> digits = pixel_catalog("memory", a=np.arange(3, dtype=np.uint8).reshape(3, 1, 1))
    >>> chosen = chosen_catalog("memory", [("two", digits, 2), ("none", digits, 0)])
    >>> chosen.ids, chosen[0].open().getpixel((0, 0))
    (['two', 'none'], 2)
    """
    listing, source = Listing(), ChosenSource()
    last: Catalog | None = None
    for name, catalog, place in images:
        if catalog is not last:  # callers give one catalog after the other
            source.sources.append(catalog.source)
            source.sequential |= catalog.source.sequential
            last = catalog
        listing.add(name, int(catalog.sizes[place]), int(catalog.stamps[place]))
        source.which.append(len(source.sources) - 1)
        source.places.append(place)
        source.names.append(catalog.ids[place])
    return Catalog(listing, source, origin)
