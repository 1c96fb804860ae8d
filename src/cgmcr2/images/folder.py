"""List the images in a folder or in a list of paths; files are only examined with ``stat``."""

from __future__ import annotations

import csv
import errno
import io
import os
import zlib
from array import array
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from cgmcr2.images.sources import file_type_problem
from cgmcr2.images.storage import FileInfo, is_url, list_remote, open_file, redact

IMAGE_SUFFIXES = (
    *(".jpg", ".jpeg", ".png", ".webp", ".gif", ".bmp", ".tif", ".tiff", ".ppm", ".pgm", ".pbm", ".pnm"),
    *(".heic", ".heif", ".avif", ".jp2"),
)
PATH_COLUMNS = ("path", "file", "filename", "image")
# Files and folders that operating systems create in photo folders.
_SYSTEM_NAMES = frozenset(
    {
        "thumbs.db",
        "ehthumbs.db",
        "desktop.ini",
        "icon\r",
        "__macosx",
        "@eadir",
        "$recycle.bin",
        "system volume information",
    }
)


@dataclass
class Listing:
    """Ids, sizes and stamps of images, and reasons for skipped files; about 100 MB for a million images."""

    ids: list[str] = field(default_factory=list)
    sizes: array[int] = field(default_factory=lambda: array("q"))
    stamps: array[int] = field(default_factory=lambda: array("q"))
    errors: list[tuple[str, str]] = field(default_factory=list)

    def add(self, id: str, size: int, stamp: int) -> None:
        self.ids.append(id)
        self.sizes.append(size)
        self.stamps.append(stamp)

    def add_file(self, id: str, path: str | os.DirEntry[str]) -> None:
        """Add the file at ``path``, or an error if it is not a readable regular file."""
        try:
            status = os.stat(path) if isinstance(path, str) else path.stat()
        except (OSError, ValueError) as error:
            self.errors.append((id, _stat_problem(error)))
            return
        if problem := file_type_problem(status.st_mode):
            self.errors.append((id, problem))
        else:
            self.add(id, status.st_size, status.st_mtime_ns)


def is_ignored(name: str) -> bool:
    """Return whether a file or folder is hidden or a system file, which is skipped without an error.

    >>> [is_ignored(name) for name in (".DS_Store", "Thumbs.db", "notes.txt")]
    [True, True, False]
    """
    return name.startswith(".") or name.casefold() in _SYSTEM_NAMES


def list_folder(root: str, exclude: Iterable[str | os.PathLike[str]] = ()) -> Listing:
    """List all files below ``root``, sorted by id, which is the path relative to ``root`` with ``/`` as separator.

    Every folder is visited once: first the real folders, then those reached through symbolic links. So loops of links
    end, and a folder that is also linked is listed under its real name.
    """
    walk = _FolderWalk(root, exclude)
    links = [""]
    while links:
        links = [link for start in sorted(links) for link in walk.visit(start)]
    return _sorted(walk.listing)


def list_objects(url: str) -> Listing:
    """List all objects below a URL, sorted by id, which is the path relative to the URL."""
    listing = Listing()
    for id, file in list_remote(url):
        if not any(is_ignored(part) for part in id.split("/")):
            listing.add(id, file.size, file.stamp)
    return _sorted(listing)


def list_urls(paths: Iterable[str], base: str) -> tuple[Listing, list[str]]:
    """List URLs in this order without a request, so that sizes are unknown (-1); return the listing and the URLs.

    Paths that are not URLs are relative to the folder or URL ``base``. The id of an image is what is written, without
    the query string, which may be a signature. A checksum distinguishes URLs that differ in the query string only.
    """
    join = "{}/{}".format if is_url(base) else os.path.join  # a list from a server cannot name local files
    paths = list(dict.fromkeys(paths))
    ids = [redact(path) for path in paths]
    counts = Counter(ids)
    listing = Listing()
    for id, path in zip(ids, paths, strict=True):
        listing.add(f"{id}?{zlib.crc32(os.fsencode(path)):08x}" if counts[id] > 1 else id, -1, 0)
    return listing, [path if is_url(path) else join(base, path) for path in paths]


def _sorted(listing: Listing) -> Listing:
    order = sorted(range(len(listing.ids)), key=listing.ids.__getitem__)
    return Listing(
        [listing.ids[i] for i in order],
        array("q", (listing.sizes[i] for i in order)),
        array("q", (listing.stamps[i] for i in order)),
        sorted(listing.errors),
    )


class _FolderWalk:
    """Depth-first walk that visits every folder once."""

    def __init__(self, root: str, exclude: Iterable[str | os.PathLike[str]]) -> None:
        self.root = root
        self.listing = Listing()
        real = Path(root).resolve()
        self.visited = {_identity(parent) for parent in real.parents}  # a link to a parent would be a loop
        self.excluded = {_identity(path) for path in exclude if os.path.isdir(path)}
        if _identity(real) in self.excluded:
            raise ValueError(f"The output folder cannot be the image folder {root!r} itself: choose another one.")

    def visit(self, start: str) -> list[str]:
        """List the files below ``start``, a path relative to the root; return the linked folders, not yet visited."""
        links: list[str] = []
        stack = [start]
        while stack:
            folder = stack.pop()
            try:
                self._scan(folder, stack, links)
            except OSError as error:
                self.listing.errors.append((folder or self.root, f"the folder {_stat_problem(error)}"))
        return links

    def _scan(self, folder: str, stack: list[str], links: list[str]) -> None:
        path = os.path.join(self.root, folder)
        identity = _identity(path)
        if identity in self.excluded:
            return
        if identity in self.visited:
            self.listing.errors.append((folder, "a link to a folder that is already listed"))
            return
        self.visited.add(identity)
        with os.scandir(path) as entries:
            for entry in entries:
                if is_ignored(entry.name):
                    continue
                id = f"{folder}/{entry.name}" if folder else entry.name
                if _is_folder(entry):
                    (links if entry.is_symlink() else stack).append(id)
                else:
                    self.listing.add_file(id, entry)


def list_paths(paths: Iterable[str], base: str) -> Listing:
    """List the files at ``paths`` in this order; the id is the path, relative paths start at ``base``."""
    listing, ids = Listing(), set[str]()
    for path in paths:
        if path in ids:
            listing.errors.append((path, "listed more than once: the first one is used"))
            continue
        ids.add(path)
        listing.add_file(path, os.path.join(base, path))
    return listing


def _open_text(file: FileInfo) -> io.TextIOWrapper:
    return io.TextIOWrapper(open_file(file), encoding="utf-8-sig", errors="surrogateescape", newline="")


def read_path_list(file: FileInfo) -> list[str]:
    """Read the paths in a text file, one per line or separated by NUL as in the output of ``find -print0``."""
    with _open_text(file) as opened:
        text = opened.read()
    lines = text.split("\0") if "\0" in text else [line.removesuffix("\r") for line in text.split("\n")]
    return [line for line in lines if line.strip()]


def read_path_column(file: FileInfo) -> list[str]:
    """Read the paths in a CSV: the column path, file, filename or image, otherwise the first column."""
    with _open_text(file) as opened:
        start = opened.readline()
        delimiter = max(",;\t", key=start.count)  # a comma if none occurs
        opened.seek(0)
        try:
            rows = [row for row in csv.reader(opened, delimiter=delimiter) if row]
        except csv.Error as error:
            raise ValueError(f"{redact(file.path)!r} cannot be read as a CSV ({error}).") from None
    if not rows:
        return []
    names = [name.strip().casefold() for name in rows[0]]
    column = next((names.index(name) for name in PATH_COLUMNS if name in names), None)
    has_header = column is not None or not _looks_like_file(rows[0][0], os.path.dirname(file.path))
    column = column or 0
    return [row[column] for row in rows[has_header:] if len(row) > column and row[column].strip()]


def _looks_like_file(text: str, folder: str) -> bool:
    return "." in text or os.path.exists(os.path.join(folder, text))


def _identity(path: str | os.PathLike[str]) -> tuple[int, int]:
    status = os.stat(path)
    return status.st_dev, status.st_ino


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link to itself
        return False


def _stat_problem(error: OSError | ValueError) -> str:
    if isinstance(error, FileNotFoundError):
        return "does not exist (a dangling link or a wrong path)"
    if isinstance(error, OSError) and error.errno == errno.ELOOP:
        return "is a link to itself"
    return f"cannot be read: {error.strerror if isinstance(error, OSError) and error.strerror else error}"
