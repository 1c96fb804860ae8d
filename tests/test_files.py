"""Atomic file writes."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from cgmcr2._files import replacing, write_json, write_text


def test_existing_file_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "a.json"
    write_text(path, "old")
    write_json(path, {"b": [1, 2]})
    assert json.loads(path.read_text()) == {"b": [1, 2]}
    assert os.listdir(path.parent) == ["a.json"]


def test_error_keeps_the_existing_file_and_deletes_the_temporary_one(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old")

    def fail() -> None:
        with replacing(path) as temporary:
            temporary.write_text("incomplete")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["a.txt"]


@pytest.mark.skipif(os.name == "nt", reason="Windows has no umask")
def test_permissions_follow_the_umask(tmp_path: Path) -> None:
    umask = os.umask(0o027)
    try:
        write_text(tmp_path / "a.txt", "text")
    finally:
        os.umask(umask)
    assert (tmp_path / "a.txt").stat().st_mode & 0o777 == 0o640


def test_the_longest_file_name_can_be_written(tmp_path: Path) -> None:
    path = tmp_path / ("\N{FULL MOON SYMBOL}" * 63)  # 252 bytes; the limit is 255
    write_text(path, "whole")
    assert path.read_text() == "whole"
