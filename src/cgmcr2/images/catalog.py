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
from cgmcr2.images.folder import (
    Listing,
    list_folder,
    list_objects,
    list_paths,
    list_urls,
    read_path_column,
    read_path_list,
)
from cgmcr2.images.shards import TAR_SUFFIXES, expand_braces, list_pattern, list_shards, shard_names
from cgmcr2.images.sources import FileSource, ImageData, ObjectSource, Source
from cgmcr2.images.storage import FileInfo, file_info, is_remote_folder, is_url, redact


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
        """List the images of a folder, a list, an archive, a data set in shards, or one image file.

        Parameters
        ----------
        path : str or path-like
            Path or URL that fsspec can read (``s3://bucket/photos``) of one of:

            - a folder, listed with its subfolders;
            - a list of paths or URLs: .txt with one per line, or a CSV; relative paths start at its folder;
            - a zip, tar or npz archive;
            - WebDataset shards: a folder of tars, or a pattern such as ``shards/{000..099}.tar``;
            - Parquet with the bytes of images, or a folder of such files;
            - a local folder that ``datasets.Dataset.save_to_disk`` wrote.
        exclude : iterable of path-like
            Folders to skip, for example the output folder.

        Returns
        -------
        Catalog
            The id of an image is its path relative to the folder, its path as written in the list (a URL without its
            query string), its name in the archive, its row number in the npz, or ``shard/name`` or ``shard/row``.
        """
        text = os.fspath(path)
        check_exists(text)
        return cls(*_open(text, exclude), redact(text))

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


def check_exists(source: str | os.PathLike[str]) -> None:
    """Raise ``FileNotFoundError`` if a source is a path that does not exist; URLs and patterns are not checked."""
    text = os.fspath(source)
    if not is_url(text) and not os.path.lexists(text) and len(expand_braces(text)) == 1:
        raise FileNotFoundError(f"There is no file or folder {text!r}.")


def _open(text: str, exclude: Iterable[str | os.PathLike[str]]) -> tuple[Listing, Source]:
    if len(expand_braces(text)) > 1 and (is_url(text) or not os.path.lexists(text)):
        return list_pattern(text if is_url(text) else os.path.abspath(text))
    if is_url(text):
        url = text.rstrip("/")
        return _open_remote_folder(url) if is_remote_folder(url) else _open_file(url)
    if os.path.isdir(text):
        return _open_folder(text, exclude)
    if not os.path.isfile(text):
        raise ValueError(f"{text!r} is neither a folder nor a file: give a folder of images, a list or an archive.")
    return _open_file(os.path.abspath(text))


def _open_folder(path: str, exclude: Iterable[str | os.PathLike[str]]) -> tuple[Listing, Source]:
    listing, folder = list_folder(path, exclude), os.path.abspath(path)
    if shards := shard_names(listing.ids):
        return list_shards({name: file_info(os.path.join(folder, name)) for name in shards})
    return listing, FileSource(folder)


def _open_remote_folder(url: str) -> tuple[Listing, Source]:
    listing = list_objects(url)
    if shards := set(shard_names(listing.ids)):
        infos = zip(listing.ids, listing.sizes, listing.stamps, strict=True)
        return list_shards({id: FileInfo(f"{url}/{id}", size, stamp) for id, size, stamp in infos if id in shards})
    return listing, ObjectSource(listing.sizes, url)


def _open_file(path: str) -> tuple[Listing, Source]:
    """List the images of a file by its suffix."""
    folder, name = os.path.split(redact(path) if is_url(path) else path)
    lower = name.lower()
    if lower.endswith((".txt", ".lst")):
        return _open_list(read_path_list(file_info(path)), folder)
    if lower.endswith((".csv", ".tsv")):
        return _open_list(read_path_column(file_info(path)), folder)
    if lower.endswith(".zip"):
        return list_zip(file_info(path))
    if lower.endswith(TAR_SUFFIXES):
        return list_tar(file_info(path))
    if lower.endswith((".parquet", ".arrow")):
        return list_shards({name: file_info(path)})
    if lower.endswith(".npz"):
        return list_npz(file_info(path))
    return _open_list([path if is_url(path) else name], folder)


def _open_list(paths: list[str], folder: str) -> tuple[Listing, Source]:
    if is_url(folder) or any(is_url(path) for path in paths):
        listing, urls = list_urls(paths, folder)
        return listing, ObjectSource(listing.sizes, urls=urls)
    return list_paths(paths, folder), FileSource(folder)
