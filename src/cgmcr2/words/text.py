"""Embeddings of a vocabulary in the space of the image features."""

from __future__ import annotations

import dataclasses
import os
import zipfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from cgmcr2._arrays import unit_rows
from cgmcr2._files import replacing
from cgmcr2.encoders.base import TextEncoder
from cgmcr2.encoders.fingerprint import fingerprint_of
from cgmcr2.words.vocabulary import Vocabulary

Float32 = npt.NDArray[np.float32]

# The embedding of a word is the mean over these prompts.
PROMPTS = ("a photo of a {}.", "a photo of the {}.", "a picture of {}.", "a close-up photo of a {}.", "{}")


@dataclasses.dataclass(frozen=True)
class TextEmbeddings:
    """A vocabulary and the embedding of each word.

    Attributes
    ----------
    vocabulary : Vocabulary
        The m words.
    embeddings : ndarray of shape (m, D)
        Unit rows.
    """

    vocabulary: Vocabulary
    embeddings: Float32

    def __post_init__(self) -> None:
        if self.embeddings.ndim != 2 or len(self.embeddings) != len(self.vocabulary):
            raise ValueError(
                f"The text embeddings have shape {self.embeddings.shape}, but there are {len(self.vocabulary)} words; "
                "give one row for each word."
            )
        if not np.isfinite(self.embeddings).all():
            raise ValueError("The text embeddings contain NaN or infinity; compute them again.")

    def check_width(self, D: int) -> None:
        """Raise ``ValueError`` if the images have features of another width."""
        if self.embeddings.shape[1] != D:
            raise ValueError(
                f"The text embeddings have width {self.embeddings.shape[1]}, but the image features have width {D}; "
                "text and images must be embedded by the same model."
            )

    def subset(self, indices: Sequence[int]) -> TextEmbeddings:
        """The words at ``indices``."""
        return TextEmbeddings(self.vocabulary.subset(indices), self.embeddings[list(indices)])

    def select(self, words: Sequence[str]) -> TextEmbeddings:
        """The given words or synonyms, under these names and in this order."""
        indices = []
        for word in words:
            index = self.vocabulary.index(word)
            if index is None:
                raise ValueError(f"The text embeddings have no word {word!r}; choose words of that file.")
            indices.append(index)
        names = Vocabulary(tuple((word, *self.vocabulary.synonyms[i]) for word, i in zip(words, indices, strict=True)))
        return TextEmbeddings(names, self.embeddings[indices])


def embed_vocabulary(
    vocabulary: Vocabulary,
    encoder: TextEncoder,
    *,
    cache: str | os.PathLike[str] | None = None,
    prompts: Sequence[str] = PROMPTS,
) -> TextEmbeddings:
    """Embed the words of a vocabulary, each as the mean over ``prompts``.

    Parameters
    ----------
    vocabulary : Vocabulary
        The m words; their synonyms are not embedded.
    encoder : TextEncoder
        The encoder of the images.
    cache : path, optional
        Folder in which the embeddings are kept, in a file named by the fingerprint of encoder, prompts and words.
    prompts : sequence of str
        Texts in which ``{}`` stands for the word.

    Examples
    --------
    >>> class Letters:
    ...     fingerprint = "letters"
    ...     def encode_text(self, texts):
    ...         return np.array([[text.count("a"), text.count("b")] for text in texts], dtype=np.float32)
    >>> embed_vocabulary(Vocabulary.from_lines(["aaab"]), Letters(), prompts=["{}"]).embeddings.round(2)
    array([[0.95, 0.32]], dtype=float32)
    """
    key = fingerprint_of(
        encoder=str(getattr(encoder, "fingerprint", "")), prompts=list(prompts), words=vocabulary.names
    )
    path = None if cache is None else Path(cache) / f"text-{key}.npz"
    if path is not None and path.is_file():
        try:
            return TextEmbeddings(vocabulary, load_text_embeddings(path).embeddings)
        except ValueError:
            pass  # damaged; computed again below
    texts = [prompt.format(name) for prompt in prompts for name in vocabulary.names]
    features = unit_rows(encoder.encode_text(texts)).reshape(len(prompts), len(vocabulary), -1)
    text = TextEmbeddings(vocabulary, unit_rows(features.mean(axis=0)).astype(np.float32))
    if path is not None:
        save_text_embeddings(path, text)
    return text


def save_text_embeddings(path: str | os.PathLike[str], text: TextEmbeddings) -> None:
    """Write an ``.npz`` file with ``names``, ``synonyms`` (joined by bars) and ``embeddings``."""
    with replacing(path) as temporary, temporary.open("wb") as file:
        np.savez(
            file,
            names=np.array(text.vocabulary.names),
            synonyms=np.array(["|".join(words) for words in text.vocabulary.synonyms]),
            embeddings=text.embeddings,
        )


def load_text_embeddings(path: str | os.PathLike[str]) -> TextEmbeddings:
    """Read an ``.npz`` file with ``names``, ``embeddings`` and, optionally, ``synonyms`` (joined by bars).

    The embeddings are scaled to unit rows. Of words that occur several times, the first is kept.
    """
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in ("names", "synonyms", "embeddings") if name in file}
    except FileNotFoundError:
        raise FileNotFoundError(f"There is no file {path} of text embeddings.") from None
    except (OSError, ValueError, zipfile.BadZipFile, EOFError) as error:
        raise ValueError(
            f"The text embeddings in {path} cannot be read; give an .npz file with the arrays names and embeddings."
        ) from error
    if not {"names", "embeddings"} <= arrays.keys():
        raise ValueError(f"The file {path} must contain the arrays names and embeddings, one row for each word.")
    names, embeddings = [str(name) for name in arrays["names"]], np.asarray(arrays["embeddings"], dtype=np.float32)
    synonyms = [str(words).split("|") for words in arrays.get("synonyms", [])] or [[name] for name in names]
    if not len(names) == len(synonyms) == len(embeddings) or embeddings.ndim != 2:
        raise ValueError(
            f"The arrays of {path} do not match: {len(names)} names, {len(synonyms)} synonyms, embeddings of shape "
            f"{embeddings.shape}."
        )
    keys = [name.casefold() for name in names]
    first = sorted({key: i for i, key in reversed(list(enumerate(keys)))}.values())
    words = tuple(tuple(dict.fromkeys([names[i], *synonyms[i]])) for i in first)
    return TextEmbeddings(Vocabulary(words), np.asarray(unit_rows(embeddings[first]), dtype=np.float32))
