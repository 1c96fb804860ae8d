"""Find the images of a clustering by the file names that other tools give."""

from __future__ import annotations

import os
import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

from .filenames import escaped

UPLOAD_PREFIX = re.compile(r"^[0-9a-f]{8}-")  # that Label Studio adds to the names of uploaded files


class FileIndex:
    """The rows of images by id, below another folder, without folder or extension, or by URL.

    >>> index = FileIndex(["cats/a.jpg", "cats/b.jpg", "dogs/b.jpg"])
    >>> index.match(["cats/a.jpg", "a.jpg", "dogs/b", "c.jpg"])
    [0, 0, 2, None]
    >>> index.match(["/photos/dogs/b.jpg", "/photos/cats/b.jpg", "/other/cats/a.jpg"])
    [2, 1, None]
    >>> index.match(["/data/local-files/?d=cats/b.jpg"])
    [1]
    >>> index.match(["b.jpg"])
    Traceback (most recent call last):
        ...
    ValueError: 'b.jpg' can be 'cats/b.jpg' or 'dogs/b.jpg'; give the path as in the first column of labels.csv.
    """

    def __init__(self, ids: Sequence[str]) -> None:
        self.ids = ids
        self._rows = {escaped(id): row for row, id in enumerate(ids) if not id.isascii()}
        self._rows |= {id: row for row, id in enumerate(ids)}

    @cached_property
    def _by_name(self) -> dict[str, list[int]]:
        """The rows of each file name without its folder, with and without extension."""
        rows: dict[str, list[int]] = defaultdict(list)
        for row, id in enumerate(self.ids):
            for name in {_base(id), _base(_stem(id))}:
                rows[name].append(row)
        return rows

    def match(self, files: Sequence[str]) -> list[int | None]:
        """The row of each file, or None if it is not an image of the clustering.

        Paths below another folder must all be below the same one: otherwise ``new/a.jpg`` would be ``a.jpg``.
        """
        matches = [self._find(file) for file in files]
        counts = Counter(match.folder for match in matches if match and match.folder is not None)
        folder = max(counts, key=lambda name: (counts[name], name == ""), default="")
        return [match.row if match and match.folder in (None, "", folder) else None for match in matches]

    def _find(self, file: str) -> _Match | None:
        if file in self._rows:
            return _Match(self._rows[file], "")
        path = _path(file)
        if path in self._rows:
            return _Match(self._rows[path], "")
        candidates = self._by_name.get(_base(path), [])
        for spelling in (str, _stem):
            ids = {row: spelling(self.ids[row]) for row in candidates}
            rows = [row for row, id in ids.items() if f"/{path}".endswith(f"/{id}")]
            longest = max((len(ids[row]) for row in rows), default=0)
            rows = [row for row in rows if len(ids[row]) == longest]  # sub/a.jpg rather than a.jpg
            folder = path[: len(path) - longest] if rows else None
            rows = rows or [row for row, id in ids.items() if f"/{id}".endswith(f"/{path}")]
            if len(rows) > 1:
                choices = " or ".join(repr(self.ids[row]) for row in rows[:2])
                raise ValueError(f"{file!r} can be {choices}; give the path as in the first column of labels.csv.")
            if rows:
                return _Match(rows[0], folder)
        return None


class _Match(NamedTuple):
    row: int
    folder: str | None  # the part of the path before the id; None if the path is a part of the id


def _path(file: str) -> str:
    """The path in a URL, such as one of Label Studio; other names with slashes instead of backslashes."""
    if file.startswith("/data/local-files/"):
        return parse_qs(urlsplit(file).query, errors="surrogateescape").get("d", [""])[0]
    if file.startswith("/data/upload/"):
        return UPLOAD_PREFIX.sub("", _base(unquote(file)))
    if re.match(r"[a-z][a-z0-9+]+://", file):
        return unquote(urlsplit(file).path).lstrip("/")
    return file.replace("\\", "/")


def _base(path: str) -> str:
    return path.rpartition("/")[2]


def _stem(path: str) -> str:
    return os.path.splitext(path)[0]
