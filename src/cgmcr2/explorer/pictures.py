"""``Pictures``: thumbnails, images, sizes and dates of the rows of a run."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image

from cgmcr2.images import Catalog, ImageItem, decode
from cgmcr2.images.sources import FileSource

from .duplicates import Quality, image_quality
from .thumbnails import Thumbnails

MAX_SIDE = 2048  # pixels of the longer side of a full image


class MissingError(LookupError):
    """There is no such row, image or file."""


class Pictures:
    """The images of the rows of a run. Methods raise ``MissingError`` for rows without an image.

    Parameters
    ----------
    ids : the id of each row
    catalog : the images; None if there are none
    cache : file of the thumbnails
    """

    def __init__(self, ids: Sequence[str], catalog: Catalog | None, cache: Path) -> None:
        self.ids, self.catalog = ids, catalog
        self._thumbnails = None if catalog is None else Thumbnails(catalog, cache)
        self._qualities: dict[int, Quality] = {}

    @property
    def have_dates(self) -> bool:
        """Whether the images are files."""
        return self.catalog is not None and isinstance(self.catalog.source, FileSource)

    def dates(self) -> bytes:
        """Modification time of the file of each row, in seconds as little-endian uint32; 0 if it is missing."""
        if self.catalog is None or not self.have_dates:
            raise MissingError("The images are not files, so they have no date.")
        positions = [self.catalog.positions.get(id, -1) for id in self.ids]
        seconds = np.append(np.clip(self.catalog.stamps // 10**9, 0, 2**32 - 1), 0).astype("<u4")
        return seconds[positions].tobytes()

    def cached_thumbnail(self, row: int) -> bytes | None:
        """WebP thumbnail of a row if it is in the cache."""
        thumbnails, item = self._find(row)
        return thumbnails.cached(item.index)

    def thumbnail(self, row: int) -> bytes:
        """WebP thumbnail of a row; an unreadable image raises what ``decode`` does."""
        thumbnails, item = self._find(row)
        return thumbnails.get(item.index)

    def image(self, row: int) -> bytes:
        """JPEG of a row, of at most 2048 pixels and without metadata; raises what ``decode`` does."""
        image = decode(self._find(row)[1], size=MAX_SIDE)
        image.thumbnail((MAX_SIDE, MAX_SIDE), Image.Resampling.LANCZOS)
        file = io.BytesIO()
        image.save(file, "JPEG", quality=90)
        return file.getvalue()

    def quality(self, row: int) -> Quality:
        """Size and sharpness of the image of a row; zeros if there is none."""
        if row not in self._qualities:
            try:
                self._qualities[row] = image_quality(self._find(row)[1])
            except MissingError:
                self._qualities[row] = Quality()
        return self._qualities[row]

    def prefetch(self, rows: Sequence[int]) -> None:
        """Make thumbnails in the background: those of ``rows``, then all others in the order of the catalog."""
        if self._thumbnails is None or self.catalog is None:
            return
        first: list[int] = []
        if not self.catalog.source.sequential:  # a compressed stream is fast only in the order of the catalog
            positions = (self.catalog.positions.get(self.ids[row]) for row in rows)
            first = [position for position in positions if position is not None]
        self._thumbnails.prefetch([*first, *range(len(self.catalog))])

    def pause(self) -> None:
        """Interrupt work in the background, because someone waits for something else."""
        if self._thumbnails is not None:
            self._thumbnails.pause()

    def close(self) -> None:
        """Stop work in the background and close the cache."""
        if self._thumbnails is not None:
            self._thumbnails.close()

    def _find(self, row: int) -> tuple[Thumbnails, ImageItem]:
        if not 0 <= row < len(self.ids):
            raise MissingError(f"There is no row {row}; rows are 0 ... {len(self.ids) - 1}.")
        if self._thumbnails is None or self.catalog is None or self.ids[row] not in self.catalog.positions:
            raise MissingError(f"Row {row} has no image.")
        return self._thumbnails, self.catalog.find(self.ids[row])
