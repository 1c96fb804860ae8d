"""Names that any file system takes, no two the same."""

from __future__ import annotations

import os
import re
import unicodedata
from pathlib import PurePosixPath

LONGEST = 255  # bytes of a name, on every common file system
_RESERVED = {"con", "prn", "aux", "nul", *(f"{port}{n}" for port in ("com", "lpt") for n in range(10))}  # on Windows


def folder_name(name: str, otherwise: str) -> str:
    """A cluster's name as the name of a folder, as near to it as file systems allow; ``otherwise`` if nothing is left.

    >>> folder_name("cats/dogs: the best?", "Cluster 3"), folder_name("..", "Cluster 3")
    ('cats-dogs- the best-', 'Cluster 3')
    """
    name = unicodedata.normalize("NFC", name)
    name = "".join("-" if c in '/\\:*?"<>|' or unicodedata.category(c) in ("Cc", "Cf", "Cs") else c for c in name)
    name = _shortened(re.sub(r"\s+", " ", name), 100).strip(" .")
    if name.split(".")[0].strip().lower() in _RESERVED:
        name = f"_{name}"
    return name or otherwise


class Names:
    """Gives out names within one folder, each once (upper and lower case count as the same).

    >>> names = Names()
    >>> names.unique("a.jpg"), names.unique("A.jpg"), names.unique("b.tar.gz")
    ('a.jpg', 'A (2).jpg', 'b.tar.gz')
    """

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._next: dict[str, int] = {}

    def unique(self, name: str) -> str:
        """``name``, or with a number after its stem if it is taken."""
        path = PurePosixPath(name)
        stem, suffix = (path.stem, path.suffix) if len(path.suffix) < 16 else (name, "")
        key = _key(name)
        candidate = _shortened(stem, LONGEST - len(os.fsencode(suffix))) + suffix
        while _key(candidate) in self._taken:
            self._next[key] = self._next.get(key, 1) + 1  # a thousand of one name must not take a million looks
            end = f" ({self._next[key]}){suffix}"
            candidate = _shortened(stem, LONGEST - len(os.fsencode(end))) + end
        self._taken.add(_key(candidate))
        return candidate


def _key(name: str) -> str:
    return unicodedata.normalize("NFC", name).casefold()


def _shortened(name: str, most: int) -> str:
    while len(os.fsencode(name)) > most:
        name = name[:-1]
    return name
