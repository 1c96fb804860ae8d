from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cgmcr2.words import TextEmbeddings, Vocabulary, embed_vocabulary, load_text_embeddings
from cgmcr2.words.text import save_text_embeddings

from ..reading import ReadingColours

WORDS = Vocabulary.from_lines(["red|crimson", "blue"])


class Counting(ReadingColours):
    """Counts the texts that it embeds."""

    def __init__(self) -> None:
        self.count = 0

    def encode_text(self, texts):  # type: ignore[no-untyped-def]
        self.count += len(texts)
        return super().encode_text(texts)


def test_the_embedding_is_the_mean_over_prompts() -> None:
    text = embed_vocabulary(WORDS, ReadingColours(), prompts=["{}", "{} and green"])
    a, b = ReadingColours().encode_text(["blue", "blue and green"])
    mean = a / np.linalg.norm(a) + b / np.linalg.norm(b)
    np.testing.assert_allclose(text.embeddings[1], mean / np.linalg.norm(mean), rtol=1e-5)


def test_the_cache_depends_on_words_prompts_and_encoder(tmp_path: Path) -> None:
    encoder = Counting()
    first = embed_vocabulary(WORDS, encoder, cache=tmp_path, prompts=["{}"])
    again = embed_vocabulary(WORDS, encoder, cache=tmp_path, prompts=["{}"])
    assert encoder.count == 2
    np.testing.assert_array_equal(first.embeddings, again.embeddings)
    embed_vocabulary(WORDS, encoder, cache=tmp_path, prompts=["a {}"])
    embed_vocabulary(Vocabulary.from_lines(["red"]), encoder, cache=tmp_path, prompts=["{}"])
    encoder.fingerprint = "other"
    embed_vocabulary(WORDS, encoder, cache=tmp_path, prompts=["{}"])
    assert encoder.count == 2 + 2 + 1 + 2


def test_a_damaged_cache_is_computed_again(tmp_path: Path) -> None:
    encoder = Counting()
    embed_vocabulary(WORDS, encoder, cache=tmp_path)
    (path,) = tmp_path.iterdir()
    path.write_bytes(b"PK damaged")
    before = encoder.count
    embed_vocabulary(WORDS, encoder, cache=tmp_path)
    assert encoder.count == 2 * before


def test_save_and_load(tmp_path: Path) -> None:
    text = TextEmbeddings(WORDS, np.float32([[0.6, 0.8], [0, 1]]))
    save_text_embeddings(tmp_path / "words.npz", text)
    loaded = load_text_embeddings(tmp_path / "words.npz")
    assert loaded.vocabulary == WORDS
    np.testing.assert_allclose(loaded.embeddings, text.embeddings, rtol=1e-6)


def test_repeated_names_are_kept_once(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", names=["dog", "cat", "Dog"], embeddings=np.float32([[2, 0], [0, 1], [1, 1]]))
    loaded = load_text_embeddings(tmp_path / "a.npz")
    assert loaded.vocabulary.names == ["dog", "cat"]
    np.testing.assert_allclose(loaded.embeddings, [[1, 0], [0, 1]])


def test_select_by_name_or_synonym() -> None:
    text = TextEmbeddings(WORDS, np.float32([[1, 0], [0, 1]])).select(["blue", "Crimson"])
    assert text.vocabulary.names == ["blue", "Crimson"]
    np.testing.assert_array_equal(text.embeddings, [[0, 1], [1, 0]])
    with pytest.raises(ValueError, match="no word 'pink'"):
        text.select(["pink"])


def test_invalid_files(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="There is no file"):
        load_text_embeddings(tmp_path / "missing.npz")
    (tmp_path / "text.npz").write_text("hello")
    with pytest.raises(ValueError, match="cannot be read"):
        load_text_embeddings(tmp_path / "text.npz")
    np.savez(tmp_path / "a.npz", features=np.eye(2))
    with pytest.raises(ValueError, match="must contain the arrays names and embeddings"):
        load_text_embeddings(tmp_path / "a.npz")
    np.savez(tmp_path / "b.npz", names=["a"], embeddings=np.eye(2))
    with pytest.raises(ValueError, match="do not match: 1 names"):
        load_text_embeddings(tmp_path / "b.npz")
    np.savez(tmp_path / "c.npz", names=["a"], embeddings=[[np.nan, 1]])
    with pytest.raises(ValueError, match="NaN"):
        load_text_embeddings(tmp_path / "c.npz")
