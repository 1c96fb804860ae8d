from __future__ import annotations

import numpy as np
import pytest

from cgmcr2 import CgMCR2
from cgmcr2.words import TextEmbeddings, Vocabulary, Wish, wished_memberships
from cgmcr2.words.wish import divide_other, find_wish

from ..colours import QUICK
from .test_naming import AXES, blobs, words


def test_images_follow_the_nearest_name_and_their_neighbours() -> None:
    X, y = blobs(AXES[0] + 0.5 * AXES[4], AXES[1] + 0.5 * AXES[5], n=40, noise=0.05)
    X[0] = X[1] + 0.01 * AXES[1]
    text = words(cat=AXES[0], dog=AXES[1])
    P = wished_memberships(X, Wish(("cat", "dog"), text))
    np.testing.assert_allclose(P.sum(1), 1, rtol=1e-4)
    np.testing.assert_array_equal(P.argmax(1), y)


def test_an_ambiguous_image_is_decided_by_its_neighbours() -> None:
    X, y = blobs(0.3 * AXES[0] + AXES[4], 0.3 * AXES[1] + AXES[5], n=40, noise=0.02)
    X[:2] = AXES[4] + 0.003 * AXES[1]  # slightly more similar to the wrong word, but among the images of the first
    text = words(cat=AXES[0], dog=AXES[1])
    zero_shot = (X @ text.embeddings.T).argmax(1)
    P = wished_memberships(X, Wish(("cat", "dog"), text))
    assert (zero_shot == y).sum() < (P.argmax(1) == y).sum() == len(y)


def test_other_images() -> None:
    X, y = blobs(AXES[0], AXES[1], AXES[2], AXES[3], n=30)
    vocabulary = words(**{f"word{i}": axis for i, axis in enumerate(AXES)})
    text = TextEmbeddings(Vocabulary.from_lines(["cat", "dog"]), AXES[:2])
    P = wished_memberships(X, Wish(("cat", "other", "dog"), text, vocabulary))
    np.testing.assert_array_equal(P.argmax(1), np.array([0, 2, 1, 1])[y])


def test_other_needs_a_vocabulary() -> None:
    with pytest.raises(ValueError, match="'Other' needs a vocabulary"):
        Wish(("cat", "Other"), words(cat=AXES[0]))


def test_two_names_for_other_images() -> None:
    with pytest.raises(ValueError, match="'other' and 'auto' both stand for images that no name describes"):
        Wish(("cat", "other", "auto"), words(cat=AXES[0]), words(cat=AXES[0]))


def test_other_images_are_divided_into_their_groups() -> None:
    X, y = blobs(AXES[0], AXES[1], AXES[2], AXES[3], n=40, noise=0.05)
    memberships = np.where(y[:, None] == 1, [0.1, 0.9], [0.8, 0.2]).astype(np.float32)  # (other, name)
    P = divide_other(memberships, X, 0)
    labels = P.argmax(1)
    assert P.shape == (160, 4)
    np.testing.assert_allclose(P[:, 0], memberships[:, 1])
    np.testing.assert_allclose(P.sum(1), 1, rtol=1e-6)
    assert (labels[y == 1] == 0).all()
    assert sorted(set(labels[y != 1].tolist())) == [1, 2, 3]
    assert all(len(set(labels[y == group].tolist())) == 1 for group in range(4))


def test_few_other_images_are_one_cluster() -> None:
    X, y = blobs(AXES[0], AXES[1], AXES[2], n=4)
    memberships = np.eye(2, dtype=np.float32)[(y > 0).astype(int)]
    np.testing.assert_array_equal(divide_other(memberships, X, 1), memberships)


def test_other_images_without_groups_are_reported(caplog: pytest.LogCaptureFixture) -> None:
    X = np.random.default_rng(0).standard_normal((300, 16)).astype(np.float32)
    divide_other(np.tile(np.float32([0.1, 0.9]), (300, 1)), X, 1)
    assert "Among the images that no name describes: No groups were found" in caplog.text


def test_copies_count_once_when_other_images_are_divided() -> None:
    X = blobs(AXES[0], AXES[1], AXES[2], AXES[3], n=40, noise=0.05)[0]
    copies = np.concatenate([X, np.repeat(X[:1], 200, axis=0)])
    memberships = np.tile(np.float32([0.1, 0.9]), (len(copies), 1))
    assert divide_other(memberships, copies, 1, np.arange(len(X))).shape[1] == 1 + 4


def test_names_without_a_word() -> None:
    with pytest.raises(ValueError, match="The names auto describe no images; give at least one word"):
        find_wish(["auto"], lambda vocabulary: words(cat=AXES[0]), words(cat=AXES[0]).vocabulary)


def test_only_the_lower_case_word_stands_for_further_clusters() -> None:
    assert Wish(("cat", "Auto"), words(cat=AXES[0], Auto=AXES[1])).other is None


def test_no_other_images() -> None:
    memberships = np.array([[0.5, 0.3, 0.2]] * 4, dtype=np.float32)
    np.testing.assert_allclose(divide_other(memberships, AXES[:4], 2), [[0.625, 0.375]] * 4)


def test_only_names_with_other_embed_the_vocabulary() -> None:
    embedded = []

    def embed(vocabulary: Vocabulary) -> TextEmbeddings:
        embedded.append(vocabulary.names)
        return TextEmbeddings(vocabulary, AXES[: len(vocabulary)])

    background = Vocabulary.from_lines(["a", "b", "c"])
    assert find_wish(["cat", "dog"], embed, background).background is None
    wish = find_wish(["rest", "cat"], embed, background)
    assert (wish.other, wish.text.vocabulary.names) == (0, ["cat"])
    assert embedded == [["cat", "dog"], ["cat"], ["a", "b", "c"]]


def test_training_follows_given_memberships() -> None:
    X, y = blobs(AXES[0], AXES[1], AXES[2], n=30)
    partition = np.array([2, 0, 1])[y]
    memberships = (0.05 + 0.85 * np.eye(3)[partition]).astype(np.float32)
    model = CgMCR2(3, settings=QUICK | {"consensus_weight": 30})
    inference = model.fit_source(X, memberships=memberships)
    np.testing.assert_array_equal(inference.labels, partition)
    assert inference.probabilities is not None
    assert abs(inference.probabilities.max(1).mean() - 0.9) < 0.02  # the mean of the largest memberships
    with pytest.raises(ValueError, match="use the preset auto"):
        CgMCR2(3, preset="paper").fit_source(X, memberships=memberships)
