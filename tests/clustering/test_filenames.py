"""Names of exported folders and files are valid on every platform, and distinct."""

from __future__ import annotations

import os
import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pathvalidate import is_valid_filename

from cgmcr2.clustering.filenames import MAX_BYTES, MAX_FOLDER_BYTES, UniqueNames, folder_name


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("dogs", "dogs"),
        ("../../etc", "-..-etc"),
        ("a\nb\tc", "a-b-c"),
        (" . ", "default"),
        ("nul", "nul_"),
        (".nul", "nul_"),
        ("Con.txt", "Con_.txt"),
        ("雪 und Füße", "雪 und Füße"),
        ("\u202egnp.exe", "-gnp.exe"),
        ("x\udcff", "x-"),
        ("trailing. ", "trailing"),
        ("two   spaces", "two spaces"),
    ],
)
def test_folder_names(name: str, expected: str) -> None:
    assert folder_name(name, "default") == expected


@given(st.text(st.characters(), max_size=120))
@example("x" * (MAX_FOLDER_BYTES - 1) + ". y")
@example("\u00e9" * 200)
@example("\udc80/\udcff")
def test_folder_names_are_valid_on_every_platform(name: str) -> None:
    result = folder_name(name, "default")
    assert is_valid_filename(result, platform="universal")
    assert result == result.strip(" .")
    assert result not in ("", ".", "..")
    assert len(result.encode()) <= MAX_FOLDER_BYTES + 1  # a reserved name is extended by "_"


def test_names_of_files_have_at_most_255_bytes() -> None:
    unique = UniqueNames()
    names = ["\u00e9" * 300 + ".jpeg"] * 12 + ["x." + "y" * 400] * 3 + ["\udce9" * 300 + ".png"] * 2
    results = [unique.add(name) for name in names]
    assert len(set(results)) == len(results)
    assert max(len(os.fsencode(name)) for name in results) == MAX_BYTES
    assert all(name.endswith(".jpeg") for name in results[:12])


@given(st.lists(st.sampled_from(["a.jpg", "A.jpg", "a (2).jpg", "A (2).JPG", "b", "\u00e9", "e\u0301"]), max_size=12))
def test_names_are_distinct_without_regard_to_case_and_normalization(names: list[str]) -> None:
    unique = UniqueNames()
    results = [unicodedata.normalize("NFC", unique.add(name)).casefold() for name in names]
    assert len(set(results)) == len(names)
