from __future__ import annotations

from pathlib import Path

import pytest

from cgmcr2.words import Vocabulary, default_vocabulary, read_vocabulary


def test_a_file_with_comments_and_synonyms(tmp_path: Path) -> None:
    path = tmp_path / "words.txt"
    path.write_text("\ufeff# furniture\ncouch | sofa, settee\n\n  arm  chair\nCouch\n", encoding="utf-8")
    vocabulary = read_vocabulary(path)
    assert vocabulary.synonyms == (("couch", "sofa", "settee"), ("arm chair",))
    assert vocabulary.index("SOFA") == 0
    assert vocabulary.index("table") is None


def test_files_without_words_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "words.txt"
    path.write_text("# nothing\n")
    with pytest.raises(ValueError, match="has no words"):
        read_vocabulary(path)
    path.write_bytes(b"caf\xe9\n")
    with pytest.raises(ValueError, match="is not UTF-8"):
        read_vocabulary(path)


def test_a_name_has_priority_over_a_synonym() -> None:
    vocabulary = Vocabulary.from_lines(["mouse|rat", "rat"])
    assert vocabulary.index("rat") == 1


def test_the_default_vocabulary() -> None:
    vocabulary = default_vocabulary()
    assert len(vocabulary) > 2000
    assert all(name == name.strip() and "|" not in name for name in vocabulary.names)
    for word in ("dog", "beach", "document", "animal", "vehicle", "tench", "sofa"):
        assert vocabulary.index(word) is not None, word
