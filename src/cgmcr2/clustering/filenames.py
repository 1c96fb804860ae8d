"""Valid and distinct names for exported folders and files."""

from __future__ import annotations

import os
import re
import unicodedata
from pathlib import PurePosixPath

from pathvalidate import sanitize_filename

MAX_BYTES = 255  # of a name, on every common file system
MAX_FOLDER_BYTES = 100  # leaves room for the rest of the path, which Windows limits to 260 characters
SPLITS = "train|training|validation|valid|val|dev|test|testing|eval|evaluation"  # words that name a split
MAX_SUFFIX = 15  # a longer "suffix" is part of the name


def folder_name(name: str, default: str) -> str:
    """Return the name of a cluster as a folder name that is valid on every platform, or ``default`` if none is left.

    >>> folder_name("cats/dogs: the best?", "Cluster 3"), folder_name("..", "Cluster 3")
    ('cats-dogs- the best-', 'Cluster 3')
    """
    name = unicodedata.normalize("NFC", name)
    # By hand: pathvalidate rejects surrogates and keeps invisible characters, such as the right-to-left override.
    name = "".join("-" if unicodedata.category(c) in ("Cc", "Cf", "Cs") else c for c in name)
    name = re.sub(r"\s+", " ", name).strip(" .")
    return sanitize_filename(name, replacement_text="-", platform="universal", max_len=MAX_FOLDER_BYTES) or default


def loader_name(name: str) -> str:
    """Return the name of a file or folder such that Hugging Face's loader reads it as an image of the only split.

    The loader would take ``test-1.jpg`` for an image of the test split and leave all others out. Bytes that are not
    UTF-8 cannot be in its ``metadata.csv``.

    >>> loader_name("00-test"), loader_name("latest.jpg"), loader_name("caf\\udce9.jpg")
    ('00-xtest', 'latest.jpg', 'caf_.jpg')
    """
    name = os.fsencode(name).decode("utf-8", "replace").replace("\N{REPLACEMENT CHARACTER}", "_")
    return re.sub(rf"(?<![^-._ 0-9])({SPLITS})(?=[-._ 0-9]|$)", r"x\1", name, flags=re.IGNORECASE)


def escaped(id: str) -> str:
    """The name of a file as UTF-8: undecodable bytes are escaped.

    >>> escaped("caf\\udce9.jpg")
    'caf\\\\xe9.jpg'
    """
    return os.fsencode(id).decode("utf-8", "backslashreplace")


class UniqueNames:
    """Distinct file names within one folder, ignoring case.

    >>> names = UniqueNames()
    >>> names.add("a.jpg"), names.add("A.jpg"), names.add("b.tar.gz")
    ('a.jpg', 'A (2).jpg', 'b.tar.gz')
    """

    def __init__(self) -> None:
        self._names: set[str] = set()
        self._counts: dict[str, int] = {}

    def add(self, name: str) -> str:
        """Return ``name``, with a number after its stem if it was added before, of at most 255 bytes."""
        path = PurePosixPath(name)
        stem, suffix = (path.stem, path.suffix) if len(path.suffix) <= MAX_SUFFIX else (name, "")
        key = _comparison_key(name)
        candidate = _join(stem, suffix)
        while _comparison_key(candidate) in self._names:
            # Counting on from the last number keeps many files of one name linear in time.
            self._counts[key] = self._counts.get(key, 1) + 1
            candidate = _join(stem, f" ({self._counts[key]}){suffix}")
        self._names.add(_comparison_key(candidate))
        return candidate


def _comparison_key(name: str) -> str:
    return unicodedata.normalize("NFC", name).casefold()


def _join(stem: str, end: str) -> str:
    """``stem + end``, with the stem shortened to ``MAX_BYTES``; by hand, because names may hold undecodable bytes."""
    while stem and len(os.fsencode(stem + end)) > MAX_BYTES:
        stem = stem[:-1]
    return stem + end
