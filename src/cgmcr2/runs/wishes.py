"""Clusters that start from names: embed the names, and let the training follow them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from cgmcr2.clustering.io import default_name
from cgmcr2.estimator import CgMCR2
from cgmcr2.features.sources import FeatureSource
from cgmcr2.words import Wish, default_vocabulary, embed_vocabulary, load_text_embeddings, wished_memberships
from cgmcr2.words.wish import AUTO, Float32, Int64, divide_other, find_wish, other_position
from cgmcr2.words.wish import DEFAULT as WISH

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
    """Set the parameters of ``model`` for clusters of these names; their number is "auto" if "auto" is among them."""
    if not names:
        return
    if model.preset != "auto":
        raise ValueError(f"Clusters by name need the preset auto, but the preset is {model.preset}.")
    model.set_params(n_clusters="auto" if _auto_position(names) is not None else len(names))


def start_clusters(source: FeatureSource, wish: Wish, distinct: Int64, seed: int) -> Float32:
    """(n, k) memberships from which the training starts; with the name "auto", its clusters are the last ones.

    Only the ``distinct`` rows count when the clusters of "auto" are found.
    """
    memberships = wished_memberships(source, wish, seed=seed)
    auto = _auto_position(wish.names)
    return memberships if auto is None else divide_other(memberships, source, auto, distinct, seed=seed)


def follow_clusters(model: CgMCR2, k: int) -> None:
    """Let the training of ``model`` follow the memberships in k clusters."""
    model.set_params(n_clusters=k, settings={"consensus_weight": WISH.weight * k, **(model.settings or {})})


def cluster_names(names: Sequence[str], k: int) -> list[str]:
    """The names of k clusters: those given, and default names for the clusters that "auto" stands for.

    >>> cluster_names(["cat", "auto"], 3)
    ['cat', 'Cluster 1', 'Cluster 2']
    """
    auto = _auto_position(names)
    given = [name for i, name in enumerate(names) if i != auto]
    further = [default_name(cluster) for cluster in range(len(given), k)]
    return [*given, *(f"{name} (new)" if name in given else name for name in further)]


def _auto_position(names: Sequence[str]) -> int | None:
    position = other_position(names)
    return position if position is not None and names[position] == AUTO else None
