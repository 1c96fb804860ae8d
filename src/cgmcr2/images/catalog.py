"""Which images there are: an ordered list with stable ids, made without opening a single image."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from PIL import Image

from cgmcr2.images.archives import list_npz, list_tar, list_zip
from cgmcr2.images.decode import open_image
from cgmcr2.images.folder import Listing, list_folder, list_paths, read_path_column, read_path_list
from cgmcr2.images.sources import FileSource, Loaded, Source

_TAR_ENDINGS = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz")


@dataclass(frozen=True, slots=True)
class ImageItem:
    """One image of a catalog: its ``id``; ``size`` in bytes and ``stamp`` tell whether it has changed."""

    id: str
    size: int
    stamp: int  # time of the file in ns; CRC or time of the archive for what lies in one
    index: int
    source: Source

    def load(self) -> Loaded:
        """The encoded bytes as an open file, or the pixels, which the caller decodes."""
        return self.source.load(self.index, self.id)

    def open(self) -> Image.Image:
        """The image as Pillow sees it: opened, not yet decoded. Most callers want :func:`cgmcr2.images.decode`."""
        return open_image(self.load())


class Catalog:
    """An ordered list of images with stable ids; ``errors`` holds (id, reason) of what was set aside.

    >>> import tempfile
    >>> from pathlib import Path
    >>> from PIL import Image
    >>> folder = Path(tempfile.mkdtemp())
    >>> Image.new("RGB", (8, 6)).save(folder / "b.png")
    >>> Image.new("RGB", (4, 4)).save(folder / "a.png")
    >>> catalog = Catalog.from_source(folder)
    >>> len(catalog), catalog.ids, catalog[1].open().size
    (2, ['a.png', 'b.png'], (8, 6))
    """

    def __init__(self, listing: Listing, source: Source, origin: str) -> None:
        if not listing.ids:
            what, why = listing.errors[0] if listing.errors else ("", "")
            more = f" ({len(listing.errors)} set aside, the first: {what!r}, {why})" if listing.errors else ""
            raise ValueError(f"No image was found in {origin!r}{more}: give a folder, list or archive that holds some.")
        self.ids = listing.ids
        self.sizes = np.frombuffer(listing.sizes, np.int64)  # (n,) bytes
        self.stamps = np.frombuffer(listing.stamps, np.int64)  # (n,)
        self.errors = listing.errors
        self.source = source
        self.origin = origin

    @classmethod
    def from_source(cls, path: str | os.PathLike[str], *, exclude: Iterable[str | os.PathLike[str]] = ()) -> Catalog:
        """The images of a folder (with those below it), a list (.txt), a CSV, a zip, a tar, an npz, or one image file.

        The id of an image is its path below the folder, its path as it stands in the list, its name in the archive, or
        its row number. Paths in a list start from the list's folder. ``exclude``: folders to leave out (the output).
        """
        place = os.fspath(path)
        if not os.path.lexists(place):
            raise FileNotFoundError(f"There is no file or folder {place!r}.")
        folder, name = os.path.split(os.path.abspath(place))
        lower = name.lower()
        source: Source
        if os.path.isdir(place):
            listing, source = list_folder(place, exclude), FileSource(os.path.abspath(place))
        elif not os.path.isfile(place):
            raise ValueError(
                f"{place!r} is neither a folder nor a file: give a folder of images, a list or an archive."
            )
        elif lower.endswith((".txt", ".lst")):
            listing, source = list_paths(read_path_list(place), folder), FileSource(folder)
        elif lower.endswith((".csv", ".tsv")):
            listing, source = list_paths(read_path_column(place), folder), FileSource(folder)
        elif lower.endswith(".zip"):
            listing, source = list_zip(os.path.abspath(place))
        elif lower.endswith(_TAR_ENDINGS):
            listing, source = list_tar(os.path.abspath(place))
        elif lower.endswith(".npz"):
            listing, source = list_npz(os.path.abspath(place))
        else:
            listing, source = list_paths([name], folder), FileSource(folder)
        return cls(listing, source, place)

    @classmethod
    def from_paths(cls, paths: Iterable[str | os.PathLike[str]], *, base: str | os.PathLike[str] = ".") -> Catalog:
        """The images at ``paths``, in this order; relative ones start from ``base``. The id is the path as given."""
        place = os.path.abspath(os.fspath(base))
        return cls(list_paths((os.fspath(path) for path in paths), place), FileSource(place), f"paths from {place}")

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, index: int) -> ImageItem:
        index = range(len(self.ids))[index]  # negative numbers, and the IndexError
        return ImageItem(self.ids[index], int(self.sizes[index]), int(self.stamps[index]), index, self.source)

    def __iter__(self) -> Iterator[ImageItem]:
        return (self[index] for index in range(len(self)))

    def __repr__(self) -> str:
        return f"Catalog({self.origin!r}: {len(self)} images, {len(self.errors)} set aside)"

    @cached_property
    def positions(self) -> dict[str, int]:
        """The place of each id."""
        return {id: index for index, id in enumerate(self.ids)}

    def find(self, id: str) -> ImageItem:
        """The image with this id; a ``KeyError`` if there is none."""
        return self[self.positions[id]]

    @cached_property
    def fingerprint(self) -> str:
        """A hash of ids, sizes and stamps in order: equal if nothing was added, removed or changed."""
        digest = hashlib.sha256()
        for id in self.ids:
            digest.update(id.encode("utf-8", "surrogatepass") + b"\0")
        digest.update(self.sizes.tobytes())
        digest.update(self.stamps.tobytes())
        return digest.hexdigest()
