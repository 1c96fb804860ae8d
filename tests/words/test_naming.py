from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from cgmcr2.words import NamingConfig, TextEmbeddings, Vocabulary, load_text_embeddings, name_groups, suggest_names
from cgmcr2.words.naming import numbered_name, sample_clusters

AXES = np.eye(8, dtype=np.float32)


def words(**vectors: object) -> TextEmbeddings:
    matrix = np.stack([np.asarray(vector, np.float32) for vector in vectors.values()])
    matrix /= np.linalg.norm(matrix, axis=1, keepdims=True)
    return TextEmbeddings(Vocabulary.from_lines(vectors), matrix)


def blobs(*centres: object, n: int = 20, noise: float = 0.1) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(len(centres)), n)
    X = np.stack([np.asarray(centre, np.float32) for centre in centres])[labels]
    return (X + noise * rng.standard_normal(X.shape)).astype(np.float32), labels


def test_each_cluster_gets_its_word_whatever_the_order() -> None:
    X, labels = blobs(AXES[0], AXES[1], AXES[2])
    text = words(cat=AXES[1], boat=AXES[2], dog=AXES[0], tree=AXES[3])
    assert [s.name for s in suggest_names(X, labels, text)] == ["dog", "cat", "boat"]
    order = np.random.default_rng(1).permutation(len(X))
    assert [s.name for s in suggest_names(X[order], labels[order] * 3, text)] == ["dog", "cat", "boat"]
    scaled = suggest_names(7 * X, labels, text)
    assert [s.words[0] for s in scaled] == [s.words[0] for s in suggest_names(X, labels, text)]


def test_names_are_distinct_if_a_second_word_is_nearly_as_good() -> None:
    X, labels = blobs(AXES[0] + 0.02 * AXES[1], AXES[0] + 0.02 * AXES[2])
    text = words(dog=AXES[0], hound=AXES[0] + 0.002 * AXES[2], boat=AXES[5])
    suggestions = suggest_names(X, labels, text, config=NamingConfig(min_fit=0))
    assert {s.name for s in suggestions} == {"dog", "hound"}


def test_clusters_of_the_same_thing_repeat_its_name_with_a_number() -> None:
    X, labels = blobs(AXES[0] + AXES[4], AXES[0] + AXES[5], AXES[1])
    text = words(dog=AXES[0], boat=AXES[1], tree=AXES[2])
    suggestions = suggest_names(X, labels, text, config=NamingConfig(min_fit=0))
    assert [s.name for s in suggestions] == ["dog", "dog (2)", "boat"]


def test_no_word_fits_clusters_that_no_word_tells_apart() -> None:
    X, labels = blobs(AXES[0] + AXES[4], AXES[0] - AXES[4], noise=0.3)
    suggestions = suggest_names(X, labels, words(dog=AXES[0], boat=AXES[1]))
    assert [s.name for s in suggestions] == [None, None]
    assert "fits other clusters nearly as well" in suggestions[0].reason
    assert suggestions[0].fit is not None
    assert abs(suggestions[0].fit - 0.5) < 0.2
    assert suggestions[0].words[0][0] == "dog"


def test_names_in_use_are_not_suggested_and_other_clusters_are_contrasts() -> None:
    X, labels = blobs(AXES[0], AXES[1])
    text = words(dog=AXES[0], hound=AXES[0] + 0.3 * AXES[3], cat=AXES[1])
    (suggestion,) = suggest_names(X, labels, text, clusters=[0], taken=["Dog"])
    assert (suggestion.cluster, suggestion.name) == (0, "hound")
    assert suggest_names(X, labels, text, clusters=[]) == []
    with pytest.raises(ValueError, match="All words of the vocabulary"):
        suggest_names(X, labels, text, taken=["dog", "hound", "cat"])


def test_rows_without_a_cluster_are_ignored() -> None:
    X, labels = blobs(AXES[0], AXES[1], AXES[2])
    labels = np.where(labels == 1, -1, labels)
    suggestions = suggest_names(X, labels, words(dog=AXES[0], cat=AXES[1], boat=AXES[2]))
    assert [(s.cluster, s.name) for s in suggestions] == [(0, "dog"), (2, "boat")]
    with pytest.raises(ValueError, match="nothing to name"):
        suggest_names(X, np.full(len(X), -1), words(dog=AXES[0]))


def test_one_cluster_and_one_image() -> None:
    (suggestion,) = suggest_names(AXES[:1], np.array([0]), words(dog=AXES[0], cat=AXES[1]))
    assert (suggestion.name, suggestion.fit) == ("dog", 1.0)


def test_other_widths_are_refused() -> None:
    with pytest.raises(ValueError, match="width 8, but the image features have width 3"):
        suggest_names(np.eye(3, dtype=np.float32), np.arange(3), words(dog=AXES[0]))


def test_groups_get_a_word_for_all_of_their_clusters() -> None:
    X, labels = blobs(AXES[0] + AXES[1], AXES[0] + AXES[2], AXES[3])
    text = words(animal=AXES[0], cat=AXES[0] + 2 * AXES[1], dog=AXES[0] + 2 * AXES[2], boat=AXES[3])
    ((best, _), *_) = name_groups(X, labels, text, [[0, 1]])[0]
    assert best == "animal"


def test_large_clusters_are_sampled() -> None:
    labels = np.repeat([3, -1, 5], [500, 100, 7])
    rows = sample_clusters(labels, 50)
    assert np.bincount(labels[rows]).tolist() == [0, 0, 0, 50, 0, 7]
    assert (np.diff(rows) > 0).all()


@pytest.mark.shared
def test_names_of_imagenette(shared_data: Path) -> None:
    with np.load(shared_data / "imagenette-clip-vit-b32.npz") as file:
        X, labels, classes = file["features"].astype(np.float32), file["labels"].astype(np.int64), file["classes"]
    text = load_text_embeddings(shared_data / "imagenet1k-names-clip-vit-b32.npz")
    suggestions = suggest_names(X, labels, text)
    right = [s.name == str(name) for s, name in zip(suggestions, classes, strict=True)]
    assert sum(right) >= 7
    listed = [
        {w.casefold() for word, _ in s.words for w in text.select([word]).vocabulary.synonyms[0]} for s in suggestions
    ]
    assert all(str(name).casefold() in five for five, name in zip(listed, classes, strict=True))


def test_numbers_of_repeated_names_are_free() -> None:
    used = Counter(["dog (2)"])
    assert [numbered_name("dog", used) for _ in range(3)] == ["dog", "dog (3)", "dog (4)"]
