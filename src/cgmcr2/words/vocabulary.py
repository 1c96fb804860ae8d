"""A vocabulary: words with synonyms, from a text file."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Iterable, Sequence
from importlib import resources
from pathlib import Path

_SEPARATORS = re.compile(r"[|,]")


@dataclasses.dataclass(frozen=True)
class Vocabulary:
    """Words, each with its synonyms.

    Attributes
    ----------
    synonyms : tuple of tuples of str
        Each word followed by its synonyms.

    Examples
    --------
    >>> vocabulary = Vocabulary.from_lines(["couch|sofa", "# a comment", "cup"])
    >>> vocabulary.names, vocabulary.index("Sofa")
    (['couch', 'cup'], 0)
    """

    synonyms: tuple[tuple[str, ...], ...]

    @classmethod
    def from_lines(cls, lines: Iterable[str]) -> Vocabulary:
        """One word a line, with synonyms after bars or commas; empty lines and lines that start with # are skipped.

        A word that occurs twice is kept once.
        """
        entries: dict[str, tuple[str, ...]] = {}
        for line in lines:
            if line.lstrip().startswith("#"):
                continue
            words = [" ".join(part.split()) for part in _SEPARATORS.split(line)]
            words = list(dict.fromkeys(word for word in words if word))
            if words:
                entries.setdefault(words[0].casefold(), tuple(words))
        if not entries:
            raise ValueError("The vocabulary has no words; give one word a line, with synonyms after bars.")
        return cls(tuple(entries.values()))

    @property
    def names(self) -> list[str]:
        """The words without their synonyms."""
        return [words[0] for words in self.synonyms]

    def __len__(self) -> int:
        return len(self.synonyms)

    def index(self, word: str) -> int | None:
        """The position of a word or synonym, ignoring case; None if the vocabulary does not have it."""
        names = [name.casefold() for name in self.names]
        if word.casefold() in names:
            return names.index(word.casefold())
        matches = (i for i, words in enumerate(self.synonyms) if word.casefold() in map(str.casefold, words))
        return next(matches, None)

    def subset(self, indices: Sequence[int]) -> Vocabulary:
        """The words at ``indices``."""
        return Vocabulary(tuple(self.synonyms[i] for i in indices))


def read_vocabulary(path: str | os.PathLike[str]) -> Vocabulary:
    """Read a UTF-8 text file, see :meth:`Vocabulary.from_lines`."""
    try:
        return Vocabulary.from_lines(Path(path).read_text(encoding="utf-8-sig").splitlines())
    except UnicodeDecodeError as error:
        raise ValueError(f"The vocabulary {path} is not UTF-8 text; save it as UTF-8.") from error


def default_vocabulary() -> Vocabulary:
    """About 2,200 common visual nouns; ``nouns.txt`` names their sources and licences.

    >>> default_vocabulary().index("stroller") == default_vocabulary().index("pram")
    True
    """
    text = resources.files(__package__).joinpath("nouns.txt").read_text(encoding="utf-8")
    return Vocabulary.from_lines(text.splitlines())
