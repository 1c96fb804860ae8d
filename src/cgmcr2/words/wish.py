"""Clusters that start from names: memberships by similarity to the words, spread over the neighbours of the images."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
from scipy.special import softmax

from cgmcr2._arrays import unit_rows
from cgmcr2._random import Stream, generator, sample_rows
from cgmcr2.consensus.choose_k import choose_k
from cgmcr2.consensus.ensemble import neighbourhood
from cgmcr2.consensus.estimator import ConsensusClustering
from cgmcr2.consensus.views import COMPONENTS, neighbour_walk, space_views
from cgmcr2.features.sources import FeatureSource, Subset, read_rows, space_widths
from cgmcr2.words.text import TextEmbeddings
from cgmcr2.words.vocabulary import Vocabulary

logger = logging.getLogger(__name__)

Float32 = npt.NDArray[np.float32]
Int64 = npt.NDArray[np.int64]

AUTO = "auto"  # in lower case; stands for as many further clusters as the images have that no name describes
OTHER = ("other", "others", "rest")  # names of a cluster for images that no other name describes


@dataclasses.dataclass(frozen=True)
class WishConfig:
    """Constants, chosen on Imagenette and 4-shot ImageNet."""

    temperature: float = 0.005  # of the memberships; half of CLIP's, so that certain images keep their word
    alpha: float = 0.5  # weight of the neighbours; the rest is the image's own word
    iterations: int = 10  # of the label spreading; 0.5^10 is below 0.1 %
    weight: float = 10.0  # of the cross-entropy to the wished clusters in training, relative to a consensus partition
    top: float = 0.02  # a word describes an image if it is in this share of the vocabulary nearest to the image
    block_rows: int = 4096  # images compared with the vocabulary, or with the further clusters, at once
    rows: int = 20_000  # sample of the other images from which the further clusters are found, as in training
    min_divided: int = 10  # fewer other images are one cluster


DEFAULT = WishConfig()


@dataclasses.dataclass(frozen=True)
class Wish:
    """The names of the clusters, and their embeddings.

    Attributes
    ----------
    names : tuple of str
        The k names.
    text : TextEmbeddings
        The names except for ``other``.
    background : TextEmbeddings or None
        Words among which a name must be one of the nearest to describe an image; needed for ``other`` only.
    """

    names: tuple[str, ...]
    text: TextEmbeddings
    background: TextEmbeddings | None = None

    def __post_init__(self) -> None:
        if self.other is not None and self.background is None:
            raise ValueError(f"The name {self.names[self.other]!r} needs a vocabulary that tells the images apart.")

    @property
    def other(self) -> int | None:
        """The position of the cluster of other images; None if there is none."""
        return other_position(self.names)


def find_wish(names: Sequence[str], embed: Callable[[Vocabulary], TextEmbeddings], vocabulary: Vocabulary) -> Wish:
    """The wish for clusters of these names.

    ``embed`` embeds words, and ``vocabulary`` is the background of ``other``.
    """
    other = other_position(names)
    words = [name for i, name in enumerate(names) if i != other]
    if not words:
        raise ValueError(f"The names {', '.join(names)} describe no images; give at least one word.")
    text = embed(Vocabulary(tuple((word,) for word in words)))
    return Wish(tuple(names), text, None if other is None else embed(vocabulary))


def other_position(names: Sequence[str]) -> int | None:
    """The position of the name for other images; None if there is none."""
    positions = [i for i, name in enumerate(names) if name == AUTO or name.casefold() in OTHER]
    if len(positions) > 1:
        first, second = names[positions[0]], names[positions[1]]
        raise ValueError(
            f"{first!r} and {second!r} both stand for images that no name describes; give one of them "
            f"(-k auto adds {AUTO!r})."
        )
    return positions[0] if positions else None


def wished_memberships(source: FeatureSource, wish: Wish, *, seed: int = 0, config: WishConfig = DEFAULT) -> Float32:
    """(n, k) memberships of the rows of ``source (n, D)`` in the wished clusters; rows sum to 1.

    Zero-shot classification, ``softmax(cos / temperature)`` over the names, then label spreading over the neighbours of
    the images. An image is of the cluster ``other`` if no name is among the words of the background nearest to it.

    >>> from cgmcr2.words.vocabulary import Vocabulary
    >>> text = TextEmbeddings(Vocabulary.from_lines(["left", "right"]), np.float32([[-1, 0], [1, 0]]))
    >>> X = np.repeat(np.float32([[-1, 0.2], [1, 0.4]]), 20, axis=0)
    >>> wished_memberships(X, Wish(("left", "right"), text)).argmax(1)[[0, 39]]
    array([0, 1])
    """
    wish.text.check_width(int(source.shape[1]))
    n, other = source.shape[0], wish.other
    described = [i for i in range(len(wish.names)) if i != other]
    P = np.zeros((n, len(wish.names)), dtype=np.float32)
    for start in range(0, n, config.block_rows):
        X = unit_rows(read_rows(source, slice(start, min(n, start + config.block_rows))))
        similarity = X @ wish.text.embeddings.T
        P[start : start + len(X), described] = softmax(similarity / config.temperature, axis=1)
        if other is not None and wish.background is not None:
            near = max(1, round(config.top * len(wish.background.vocabulary)))
            words = np.partition(X @ wish.background.embeddings.T, -near, axis=1)[:, -near]  # (b,)
            unknown = start + np.flatnonzero(similarity.max(axis=1) < words)
            P[unknown] = np.eye(len(wish.names), dtype=np.float32)[other]
    return spread(P, source, seed=seed, config=config)


def spread(memberships: Float32, source: FeatureSource, *, seed: int, config: WishConfig = DEFAULT) -> Float32:
    """Label spreading (Zhou et al., 2004) of ``memberships (n, k)`` over the neighbours of the rows of ``source``.

    Repeats ``P = alpha W P + (1 - alpha) Q``, where ``Q`` is ``memberships`` and ``W (n, n)`` the random walk over the
    neighbours, averaged over the linear views of the features.
    """
    views = space_views(source, COMPONENTS, seed, space_widths(source))
    walk = neighbour_walk(source, views, neighbourhood(source.shape[0], memberships.shape[1]), seed)
    P = memberships
    for _ in range(config.iterations):
        P = config.alpha * (walk @ P) + (1 - config.alpha) * memberships
    return np.asarray(P, dtype=np.float32)


def divide_other(
    memberships: Float32,
    source: FeatureSource,
    other: int,
    distinct: Int64 | None = None,
    *,
    seed: int = 0,
    config: WishConfig = DEFAULT,
) -> Float32:
    """Divide the cluster ``other`` of ``memberships (n, k)`` into m further clusters, the last columns of (n, k-1+m).

    The images of this cluster are clustered by ``ConsensusClustering``, and m is chosen by ``choose_k``, from those
    among the ``distinct`` rows if these are given. It is 1 if there are few such images, and 0 if there are none.

    >>> X = np.repeat(np.eye(4, dtype=np.float32), 20, axis=0)
    >>> memberships = np.repeat(np.float32([[1, 0], [0, 1], [0, 1], [0, 1]]), 20, axis=0)
    >>> divide_other(memberships, X, 1).sum(0)
    array([20., 20., 20., 20.], dtype=float32)
    """
    rows = np.flatnonzero(memberships.argmax(axis=1) == other)
    named = np.delete(memberships, other, axis=1)
    if not len(rows):
        return np.asarray(named / named.sum(axis=1, keepdims=True), dtype=np.float32)
    rows = rows if distinct is None else np.intersect1d(rows, distinct)
    choice = choose_k(Subset(source, rows), seed=seed) if len(rows) >= config.min_divided else None
    m = 1 if choice is None else choice.chosen
    if choice is not None and choice.noise:
        logger.warning("Among the images that no name describes: %s", choice.verdict)
    if m == 1:
        return np.concatenate([named, memberships[:, [other]]], axis=1)
    sample = rows[sample_rows(len(rows), config.rows, generator(seed, Stream.TRAINING_ROWS))]
    clusters = ConsensusClustering(m, random_state=seed).fit(unit_rows(read_rows(source, sample)))
    n = len(memberships)
    blocks = (slice(start, min(n, start + config.block_rows)) for start in range(0, n, config.block_rows))
    labels = np.concatenate([clusters.predict(unit_rows(read_rows(source, block))) for block in blocks])
    further = np.zeros((n, m), dtype=np.float32)
    further[np.arange(n), labels] = memberships[:, other]
    return np.concatenate([named, further], axis=1)
