"""Read files from folders and tar archives."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from cgmcr2.datasets.files import read_files

FILES = {"data/a.txt": b"1", "b.txt": b"2"}


def test_folder_and_tar_give_the_same_files(tmp_path: Path, write_tar: Callable[..., Path]) -> None:
    (tmp_path / "kit" / "data").mkdir(parents=True)
    for name, data in FILES.items():
        (tmp_path / "kit" / name).write_bytes(data)
    archive = write_tar(tmp_path / "kit.tar.gz", {f"kit/{name}": data for name, data in FILES.items()}, "w:gz")
    assert read_files(tmp_path / "kit", list(FILES)) == FILES
    assert read_files(archive, list(FILES)) == FILES


def test_missing_file(tmp_path: Path, write_tar: Callable[..., Path]) -> None:
    archive = write_tar(tmp_path / "kit.tar", {"nota.txt": b"", "b.txt": b"2"})
    with pytest.raises(ValueError, match=r"does not contain 'a\.txt'"):
        read_files(archive, ["a.txt", "b.txt"])


def test_damaged_gzip(tmp_path: Path, write_tar: Callable[..., Path]) -> None:
    archive = write_tar(tmp_path / "kit.tar.gz", {"a.txt": b"1" * 10_000}, "w:gz")
    archive.write_bytes(archive.read_bytes()[:40])
    with pytest.raises(ValueError, match="cannot be read as a tar archive"):
        read_files(archive, ["a.txt"])
