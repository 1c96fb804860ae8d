"""Names for clusters: the words that set each cluster apart from the others."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Collection, Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt
from scipy.optimize import linear_sum_assignment
from scipy.special import softmax
from scipy.stats import rankdata

from cgmcr2._arrays import unit_rows
from cgmcr2._random import Stream, generator
from cgmcr2.features.sources import FeatureSource, read_rows
from cgmcr2.words.text import TextEmbeddings

Int64 = npt.NDArray[np.int64]
Float32 = npt.NDArray[np.float32]


@dataclasses.dataclass(frozen=True)
class NamingConfig:
    """Constants of the naming, chosen on k-means clusters of classes of 4-shot ImageNet."""

    count: int = 5  # words kept for each cluster, which are also its candidates
    temperature: float = 0.01  # of the votes; that of CLIP and SigLIP after training
    min_share: float = 0.9  # of the votes of the best word; a free word with fewer is worse than a repeated name
    min_fit: float = 0.7  # below, no word fits
    images_per_cluster: int = 100  # a larger random sample would change little


DEFAULT = NamingConfig()


@dataclasses.dataclass(frozen=True)
class Suggestion:
    """The suggested name of a cluster.

    Attributes
    ----------
    cluster : int
        Number of the cluster.
    name : str or None
        The name; None if no word fits.
    words : list of (str, float)
        The best words with their share of the votes, best first.
    fit : float or None
        Probability that an image of the cluster is closer to the name than an image of another cluster: 0.5 is chance,
        1 is perfect (area under the ROC curve). If no word fits, that of the best word. None if it is not known.
    reason : str
        Why no word fits; empty if there is a name.
    """

    cluster: int
    name: str | None
    words: list[tuple[str, float]]
    fit: float | None
    reason: str = ""


def suggest_names(
    features: FeatureSource,
    labels: Int64,
    text: TextEmbeddings,
    *,
    clusters: Sequence[int] | None = None,
    taken: Collection[str] = (),
    config: NamingConfig = DEFAULT,
) -> list[Suggestion]:
    """Suggest a name for each cluster, all of them different.

    The candidates are the five words nearest to the centroid of each cluster. The images and the centroid of a cluster
    then vote for the candidates of all clusters with weights ``softmax(cos / temperature)``, so a word that describes
    other clusters competes with better words for them. Names are assigned to all clusters together so that the product
    of their votes is maximal. A cluster whose best words all name other clusters repeats one of them with a number,
    such as "dog (2)".

    Parameters
    ----------
    features : (n, D) features of the images
    labels : (n,) cluster of each image, -1 for images of no cluster
    text : words in the same space
    clusters : the clusters to name; default: all that have images. The others are contrasts only.
    taken : names that must not be used
    config : constants

    Examples
    --------
    >>> from cgmcr2.words.vocabulary import Vocabulary
    >>> text = TextEmbeddings(Vocabulary.from_lines(["left", "right", "up"]), np.float32([[-1, 0], [1, 0], [0, 1]]))
    >>> X = np.float32([[-1, 0.2], [-1, 0.3], [1, 0.4], [1, 0.2]])
    >>> [suggestion.name for suggestion in suggest_names(X, np.array([0, 0, 1, 1]), text)]
    ['left', 'right']
    """
    sample = _Sample.draw(features, labels, text, config)
    named = np.arange(len(sample.clusters))
    if clusters is not None:
        named = np.flatnonzero(np.isin(sample.clusters, list(clusters)))
    forbidden = {name.casefold() for name in taken}
    allowed = np.array(
        [i for i, name in enumerate(text.vocabulary.names) if name.casefold() not in forbidden], np.int64
    )
    if not len(allowed):
        raise ValueError("All words of the vocabulary are names of clusters already; give a larger vocabulary.")
    nearest = np.argsort(-(sample.centroids @ text.embeddings[allowed].T), axis=1, kind="stable")[:, : config.count]
    candidates = allowed[np.unique(nearest)]
    votes = sample.votes(text.embeddings[candidates], config.temperature)[named]  # (clusters, candidates)
    words = [text.vocabulary.names[i] for i in candidates]
    used = Counter(taken)
    suggestions = []
    for cluster, shares, word in zip(named, votes, _assign(votes, config.min_share), strict=True):
        best = np.argsort(-shares, kind="stable")[: config.count]
        fit = sample.fit(int(cluster), text.embeddings[candidates[word]])
        name, reason = None, ""
        if fit < config.min_fit:
            reason = f"the best word, {words[word]}, fits other clusters nearly as well"
        else:
            name = numbered_name(words[word], used)
        listed = [(words[i], round(float(shares[i]), 4)) for i in best]
        suggestions.append(Suggestion(int(sample.clusters[cluster]), name, listed, round(fit, 4), reason))
    return suggestions


def name_groups(
    features: FeatureSource,
    labels: Int64,
    text: TextEmbeddings,
    groups: Sequence[Sequence[int]],
    *,
    config: NamingConfig = DEFAULT,
) -> list[list[tuple[str, float]]]:
    """The best words for groups of clusters, such as the inner nodes of a hierarchy.

    The score of a word is the smallest one of the clusters of the group, relative to the mean over all clusters, so
    the word must describe each of them: a group of cats and dogs is "animal" rather than "cat".
    """
    sample = _Sample.draw(features, labels, text, config)
    similarity = sample.centroids @ text.embeddings.T
    scores = similarity - similarity.mean(axis=0)
    names, result = text.vocabulary.names, []
    for group in groups:
        score = scores[np.isin(sample.clusters, list(group))].min(axis=0)
        best = np.argsort(-score, kind="stable")[: config.count]
        result.append([(names[i], round(float(score[i]), 4)) for i in best])
    return result


@dataclasses.dataclass(frozen=True)
class _Sample:
    """Unit rows ``X (n, D)`` of a sample of the images, grouped by the position of their cluster in ``clusters``."""

    X: Float32
    members: Int64  # (n,) ascending
    clusters: Int64  # (k,) numbers of the clusters, ascending

    @classmethod
    def draw(cls, features: FeatureSource, labels: Int64, text: TextEmbeddings, config: NamingConfig) -> _Sample:
        text.check_width(int(features.shape[1]))
        labels = np.asarray(labels, dtype=np.int64)
        rows = sample_clusters(labels, config.images_per_cluster)
        rows = rows[np.argsort(labels[rows], kind="stable")]
        clusters, members = np.unique(labels[rows], return_inverse=True)
        if not len(rows):
            raise ValueError("There are no images in clusters, so there is nothing to name.")
        return cls(np.asarray(unit_rows(read_rows(features, rows)), dtype=np.float32), members, clusters)

    @cached_property
    def parts(self) -> list[Float32]:
        """The rows of each cluster."""
        return np.split(self.X, np.flatnonzero(np.diff(self.members)) + 1)

    @cached_property
    def centroids(self) -> Float32:
        """(k, D) unit rows."""
        return np.asarray(unit_rows(np.stack([part.mean(axis=0) for part in self.parts])), dtype=np.float32)

    def votes(self, words: Float32, temperature: float) -> Float32:
        """(k, m) votes of each cluster for ``words (m, D)``, rows sum to 1: the geometric mean of two probabilities.

        These are ``softmax(cos / temperature)`` of the centroid, and its mean over the images.
        """
        images = np.stack([softmax(part @ words.T / temperature, axis=1).mean(axis=0) for part in self.parts])
        votes = np.sqrt(images * softmax(self.centroids @ words.T / temperature, axis=1))
        return np.asarray(votes / votes.sum(axis=1, keepdims=True), dtype=np.float32)

    def fit(self, cluster: int, word: Float32) -> float:
        """How well the similarity to ``word (D,)`` separates a cluster from the others, see ``Suggestion``."""
        inside = self.members == cluster
        n, m = int(inside.sum()), int((~inside).sum())
        if not m:
            return 1.0
        return float((rankdata(self.X @ word)[inside].sum() - n * (n + 1) / 2) / (n * m))


def sample_clusters(labels: Int64, count: int, seed: int = 0) -> Int64:
    """Ascending rows with at most ``count`` random ones of each cluster; rows labelled -1 are left out.

    >>> sample_clusters(np.array([0, 1, -1, 0]), 5)
    array([0, 1, 3])
    """
    order = generator(seed, Stream.TRAINING_ROWS).permutation(np.flatnonzero(labels >= 0))
    order = order[np.argsort(labels[order], kind="stable")]
    _, starts, sizes = np.unique(labels[order], return_index=True, return_counts=True)
    rank = np.arange(len(order)) - np.repeat(starts, sizes)
    return np.sort(order[rank < count])


def numbered_name(word: str, used: Counter[str]) -> str:
    """``word``, with a number if it is in use; it is in use afterwards."""
    name, number = word, 1
    while used[name]:
        number += 1
        name = f"{word} ({number})"
    used[name] += 1
    return name


def _assign(votes: Float32, min_share: float) -> list[int]:
    """A column for each row of ``votes``: different ones, unless a row would get less than a share of its maximum."""
    best = votes.argmax(axis=1)
    columns = best.copy()
    rows, assigned = linear_sum_assignment(np.log(votes + 1e-4), maximize=True)
    columns[rows] = assigned
    index = np.arange(len(votes))
    return [int(i) for i in np.where(votes[index, columns] < min_share * votes[index, best], best, columns)]
