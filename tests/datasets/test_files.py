"""Find the official files, and read files from folders and tar archives."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from cgmcr2.datasets import dataset_info
from cgmcr2.datasets.files import find_path, read_files

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
    with pytest.raises(FileNotFoundError, match=r"'a\.txt' was not found in"):
        read_files(archive, ["a.txt", "b.txt"])
    with pytest.raises(FileNotFoundError, match=r"'a\.txt' was not found in"):
        read_files(tmp_path, ["a.txt"])


def test_path_may_be_one_of_several_nested_files(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    for name, data in FILES.items():
        (tmp_path / name).write_bytes(data)
    for name in FILES:
        assert read_files(tmp_path / name, list(FILES)) == FILES


def test_missing_archive_is_not_reported_as_damaged(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"kit\.tar"):
        read_files(tmp_path / "kit.tar", ["a.txt"])


def test_missing_file_is_reported_in_the_folder_that_was_searched(tmp_path: Path) -> None:
    file = tmp_path / "other.txt"
    file.touch()
    with pytest.raises(FileNotFoundError, match=rf"in '{re.escape(str(tmp_path))}', but none was found"):
        find_path(dataset_info("cifar10"), file, "cifar-10-batches-py", "cifar-10-python.tar.gz")


@pytest.mark.parametrize("compression", ["gz", "xz"])
def test_damaged_archive(tmp_path: Path, write_tar: Callable[..., Path], compression: str) -> None:
    archive = write_tar(
        tmp_path / f"kit.tar.{compression}", {"a.txt": random.Random(0).randbytes(50_000)}, f"w:{compression}"
    )
    data = bytearray(archive.read_bytes())
    data[len(data) // 2 :] = bytes(len(data) - len(data) // 2)
    archive.write_bytes(data)
    with pytest.raises(ValueError, match="cannot be read as a tar archive"):
        read_files(archive, ["a.txt"])
