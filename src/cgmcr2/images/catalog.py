"""Ordered list of images with stable ids, created without opening any image."""

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
from cgmcr2.images.sources import FileSource, ImageData, Source

_TAR_SUFFIXES = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz")


@dataclass(frozen=True, slots=True)
class ImageItem:
    """One image of a catalog; ``size`` and ``stamp`` reveal whether the file has changed."""

    id: str
    size: int  # bytes
    stamp: int  # modification time in ns; for archives the CRC of the member or the time of the archive
    index: int
    source: Source

    def load(self) -> ImageData:
        """Return the encoded image as an open file, or its pixels."""
        return self.source.load(self.index, self.id)

    def open(self) -> Image.Image:
        """Open the image with Pillow without decoding it; most callers need :func:`cgmcr2.images.decode`."""
        return open_image(self.load())


class Catalog:
    """Ordered list of images with stable ids.

    Attributes
    ----------
    ids : list of str
        Id of each image.
    sizes : ndarray of shape (n,)
        Size of each image in bytes.
    stamps : ndarray of shape (n,)
        Modification time or checksum of each image.
    errors : list of (id, reason)
        Files that were skipped.

    Examples
    --------
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
            id, reason = listing.errors[0] if listing.errors else ("", "")
            skipped = f" ({len(listing.errors)} skipped, the first: {id!r}, {reason})" if listing.errors else ""
            raise ValueError(f"No image was found in {origin!r}{skipped}: give a folder, list or archive of images.")
        self.ids = listing.ids
        self.sizes = np.frombuffer(listing.sizes, np.int64)
        self.stamps = np.frombuffer(listing.stamps, np.int64)
        self.errors = listing.errors
        self.source = source
        self.origin = origin

    @classmethod
    def from_source(cls, path: str | os.PathLike[str], *, exclude: Iterable[str | os.PathLike[str]] = ()) -> Catalog:
        """List the images of a folder and its subfolders, a list (.txt), a CSV, a zip, a tar, an npz, or one file.

        Parameters
        ----------
        path : str or path-like
            The source. Paths in a list or CSV are relative to its folder.
        exclude : iterable of path-like
            Folders to skip, for example the output folder.

        Returns
        -------
        Catalog
            The id of an image is its path relative to the folder, its path as written in the list, its name in the
            archive, or its row number in the npz.
        """
        text = os.fspath(path)
        if not os.path.lexists(text):
            raise FileNotFoundError(f"There is no file or folder {text!r}.")
        absolute = os.path.abspath(text)
        folder, name = os.path.split(absolute)
        lower = name.lower()
        source: Source
        if os.path.isdir(text):
            listing, source = list_folder(text, exclude), FileSource(absolute)
        elif not os.path.isfile(text):
            raise ValueError(f"{text!r} is neither a folder nor a file: give a folder of images, a list or an archive.")
        elif lower.endswith((".txt", ".lst")):
            listing, source = list_paths(read_path_list(text), folder), FileSource(folder)
        elif lower.endswith((".csv", ".tsv")):
            listing, source = list_paths(read_path_column(text), folder), FileSource(folder)
        elif lower.endswith(".zip"):
            listing, source = list_zip(absolute)
        elif lower.endswith(_TAR_SUFFIXES):
            listing, source = list_tar(absolute)
        elif lower.endswith(".npz"):
            listing, source = list_npz(absolute)
        else:
            listing, source = list_paths([name], folder), FileSource(folder)
        return cls(listing, source, text)

    @classmethod
    def from_paths(cls, paths: Iterable[str | os.PathLike[str]], *, base: str | os.PathLike[str] = ".") -> Catalog:
        """List the images at ``paths`` in this order; the id is the path, relative paths start at ``base``."""
        folder = os.path.abspath(os.fspath(base))
        return cls(list_paths((os.fspath(path) for path in paths), folder), FileSource(folder), f"paths from {folder}")

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, index: int) -> ImageItem:
        index = range(len(self.ids))[index]  # resolves negative indices and raises IndexError
        return ImageItem(self.ids[index], int(self.sizes[index]), int(self.stamps[index]), index, self.source)

    def __iter__(self) -> Iterator[ImageItem]:
        return (self[index] for index in range(len(self)))

    def __repr__(self) -> str:
        return f"Catalog({self.origin!r}: {len(self)} images, {len(self.errors)} skipped)"

    @cached_property
    def positions(self) -> dict[str, int]:
        """Index of each id."""
        return {id: index for index, id in enumerate(self.ids)}

    def find(self, id: str) -> ImageItem:
        """Return the image with this id; raise ``KeyError`` if there is none."""
        return self[self.positions[id]]

    @cached_property
    def fingerprint(self) -> str:
        """Hash of ids, sizes and stamps in order; it changes if an image is added, removed or changed."""
        digest = hashlib.sha256()
        for id in self.ids:
            digest.update(id.encode("utf-8", "surrogatepass") + b"\0")
        digest.update(self.sizes.tobytes())
        digest.update(self.stamps.tobytes())
        return digest.hexdigest()
