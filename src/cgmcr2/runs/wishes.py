"""Clusters that start from names: embed the names, and let the training follow them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from cgmcr2.estimator import CgMCR2
from cgmcr2.words import Wish, default_vocabulary, embed_vocabulary, load_text_embeddings
from cgmcr2.words.wish import DEFAULT as WISH
from cgmcr2.words.wish import find_wish, other_position

from .folder import RunFolder, StrPath
from .names import READERS, TEXT_CACHE, load_reader

READER_ADVICE = f"names need {READERS}, or embeddings of words with --text-embeddings"


def wish_maker(
    names: Sequence[str], text: StrPath | None, run: RunFolder, encoder: str | None
) -> Callable[[], Wish] | None:
    """A function that embeds the names of the clusters; None if there are none. Raises if they cannot be embedded."""
    if not names:
        if text is not None:
            raise ValueError("Text embeddings are used with names of clusters; give --names as well.")
        return None
    if text is not None:
        words = load_text_embeddings(text)
        words.select([name for i, name in enumerate(names) if i != other_position(names)])  # raises for missing words
        return lambda: find_wish(names, lambda vocabulary: words.select(vocabulary.names), words.vocabulary)
    if encoder is None:
        raise ValueError(
            "Names need words in the space of the features; give their embeddings with --text-embeddings FILE.npz."
        )

    def make() -> Wish:
        reader = load_reader(encoder, READER_ADVICE)
        return find_wish(
            names,
            lambda vocabulary: embed_vocabulary(vocabulary, reader, cache=run.path / TEXT_CACHE),
            default_vocabulary(),
        )

    return make


def prepare_wish(model: CgMCR2, names: Sequence[str]) -> None:
    """Let the training of ``model`` follow the names of the clusters."""
    if not names:
        return
    if model.preset != "auto":
        raise ValueError(f"Clusters by name need the preset auto, but the preset is {model.preset}.")
    # a name that describes no image is an empty cluster, not a collapsed one
    settings = {"consensus_weight": WISH.weight * len(names), "act_on_collapse": False, **(model.settings or {})}
    model.set_params(n_clusters=len(names), settings=settings)
