"""The images under a folder or in a list of paths: looked at with ``stat``, never opened."""

from __future__ import annotations

import csv
import errno
import os
from array import array
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from cgmcr2.images.sources import what_is_wrong

PATH_COLUMNS = ("path", "file", "filename", "image")
# What systems leave in photo folders; nobody wants to read about these. Hidden names are skipped as well.
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
    """What was found: three columns, and what was set aside with its reason. A million images take about 100 MB."""

    ids: list[str] = field(default_factory=list)
    sizes: array[int] = field(default_factory=lambda: array("q"))
    stamps: array[int] = field(default_factory=lambda: array("q"))
    errors: list[tuple[str, str]] = field(default_factory=list)

    def add(self, id: str, size: int, stamp: int) -> None:
        self.ids.append(id)
        self.sizes.append(size)
        self.stamps.append(stamp)

    def add_file(self, id: str, path: str | os.DirEntry[str]) -> None:
        """Add the file at ``path``, or the reason why it is none."""
        try:
            status = os.stat(path) if isinstance(path, str) else path.stat()
        except (OSError, ValueError) as error:
            self.errors.append((id, _why_not(error)))
            return
        if problem := what_is_wrong(status.st_mode):
            self.errors.append((id, problem))
        else:
            self.add(id, status.st_size, status.st_mtime_ns)


def is_skipped(name: str) -> bool:
    """Whether a file or folder of this name is passed over without a word: hidden, or left there by the system.

    >>> [is_skipped(name) for name in (".DS_Store", "Thumbs.db", "notes.txt")]
    [True, True, False]
    """
    return name.startswith(".") or name.casefold() in _SYSTEM_NAMES


def list_folder(root: str, exclude: Iterable[str | os.PathLike[str]] = ()) -> Listing:
    """All files under ``root``, sorted by their path below it, which is their id (with ``/`` on every system).

    Each folder is entered once: first all real folders, then linked ones that were not seen. So a loop of links ends,
    and a folder that is reached twice keeps its real name. ``exclude``: folders to leave out, such as the output.
    """
    listing = Listing()
    real = Path(root).resolve()
    seen = {_identity(parent) for parent in real.parents}  # a link upwards is a loop
    excluded = {_identity(path) for path in exclude if os.path.isdir(path)}
    if _identity(real) in excluded:
        raise ValueError(f"The output cannot be the folder of the images itself: give another place than {root!r}.")
    links = [""]
    while links:
        later: list[str] = []
        for link in sorted(links):
            stack = [link]
            while stack:
                below = stack.pop()
                folder = os.path.join(root, below)
                try:
                    identity = _identity(folder)
                    if identity in excluded:
                        continue
                    if identity in seen:
                        listing.errors.append((below, "a link to a folder that is already looked at"))
                        continue
                    seen.add(identity)
                    with os.scandir(folder) as entries:
                        for entry in entries:
                            id = f"{below}/{entry.name}" if below else entry.name
                            if is_skipped(entry.name):
                                continue
                            if not _is_folder(entry):
                                listing.add_file(id, entry)
                            else:
                                (later if entry.is_symlink() else stack).append(id)
                except OSError as error:
                    listing.errors.append((below or root, f"the folder {_why_not(error)}"))
        links = later
    order = sorted(range(len(listing.ids)), key=listing.ids.__getitem__)
    return Listing(
        [listing.ids[i] for i in order],
        array("q", (listing.sizes[i] for i in order)),
        array("q", (listing.stamps[i] for i in order)),
        sorted(listing.errors),
    )


def list_paths(paths: Iterable[str], base: str) -> Listing:
    """The files at ``paths``, relative to ``base``, in the given order; the id is the path as given, each once."""
    listing, seen = Listing(), set[str]()
    for path in paths:
        if path in seen:
            listing.errors.append((path, "listed more than once: the first counts"))
            continue
        seen.add(path)
        listing.add_file(path, os.path.join(base, path))
    return listing


def read_path_list(path: str) -> list[str]:
    """The paths in a text file, one a line (or separated by NUL, as ``find -print0`` writes them)."""
    with open(path, encoding="utf-8-sig", errors="surrogateescape", newline="") as file:
        text = file.read()
    lines = text.split("\0") if "\0" in text else [line.removesuffix("\r") for line in text.split("\n")]
    return [line for line in lines if line.strip()]


def read_path_column(path: str) -> list[str]:
    """The paths in a CSV: the column called path, file, filename or image, else the first one."""
    with open(path, encoding="utf-8-sig", errors="surrogateescape", newline="") as file:
        start = file.readline()
        delimiter = max(",;\t", key=start.count)  # the first of equals, so a comma when there is none
        file.seek(0)
        try:
            rows = [row for row in csv.reader(file, delimiter=delimiter) if row]
        except csv.Error as error:
            raise ValueError(f"{path!r} is not a CSV that can be read ({error}).") from None
    if not rows:
        return []
    names = [name.strip().casefold() for name in rows[0]]
    column = next((names.index(name) for name in PATH_COLUMNS if name in names), None)
    if column is None:
        column = 0
        # without a known name the first row is still a header if it looks like no file
        has_header = "." not in rows[0][0] and not os.path.exists(os.path.join(os.path.dirname(path), rows[0][0]))
    else:
        has_header = True
    return [row[column] for row in rows[has_header:] if len(row) > column and row[column].strip()]


def _identity(path: str | os.PathLike[str]) -> tuple[int, int]:
    status = os.stat(path)
    return status.st_dev, status.st_ino


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link that leads to itself
        return False


def _why_not(error: OSError | ValueError) -> str:
    if isinstance(error, FileNotFoundError):
        return "does not exist (a dangling link, or a wrong path)"
    if isinstance(error, OSError) and error.errno == errno.ELOOP:
        return "is a link that leads to itself"
    return f"cannot be read: {error.strerror if isinstance(error, OSError) and error.strerror else error}"
