from __future__ import annotations

import itertools
import shutil
from pathlib import Path

import pytest

from cgmcr2._checksums import (
    FILE_NAME,
    DamagedFileError,
    find_damage,
    finish_replacement,
    read_checksums,
    record_checksums,
    replacing_files,
    verify_files,
)

from .fault_injection import killed_at


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "a.txt").write_bytes(b"first")
    (tmp_path / "b.bin").write_bytes(bytes(range(256)) * 100)
    (tmp_path / "empty").touch()
    record_checksums(tmp_path, ["a.txt", "b.bin", "empty", "missing"])
    return tmp_path


def test_unchanged_files_verify(folder: Path) -> None:
    verify_files(folder, ["a.txt", "b.bin", "empty", "unlisted"])
    assert set(read_checksums(folder) or ()) == {"a.txt", "b.bin", "empty"}


@pytest.mark.parametrize("position", [0, 12_345, 25_599])
def test_any_changed_byte_is_found(folder: Path, position: int) -> None:
    data = bytearray((folder / "b.bin").read_bytes())
    data[position] ^= 1
    (folder / "b.bin").write_bytes(data)
    with pytest.raises(DamagedFileError, match=r"b\.bin is damaged \(its checksum differs\); check .* cgmcr2 doctor"):
        verify_files(folder, ["a.txt", "b.bin"])
    verify_files(folder, ["a.txt"])  # other files can still be read


def test_truncated_and_missing_files_are_found(folder: Path) -> None:
    (folder / "b.bin").write_bytes(b"")
    (folder / "a.txt").unlink()
    assert find_damage(folder) == {"a.txt": "is missing", "b.bin": "is damaged (its checksum differs)"}


@pytest.mark.parametrize("change", [lambda t: t.replace("5", "6", 1), lambda t: t[:40], lambda t: "[]", lambda t: ""])
def test_a_changed_list_of_checksums_is_found(folder: Path, change: object) -> None:
    text = (folder / FILE_NAME).read_text()
    (folder / FILE_NAME).write_text(change(text))  # type: ignore[operator]
    with pytest.raises(DamagedFileError, match=r"checksums\.json is damaged"):
        verify_files(folder, ["a.txt"])


def test_recording_again_updates_only_the_named_files(folder: Path) -> None:
    (folder / "a.txt").write_bytes(b"second")
    (folder / "b.bin").unlink()
    (folder / "empty").unlink()
    record_checksums(folder, ["a.txt", "empty"])
    assert find_damage(folder) == {"b.bin": "is missing"}
    assert set(read_checksums(folder) or ()) == {"a.txt", "b.bin"}


def content(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def replace_all(folder: Path) -> None:
    with replacing_files(folder) as staging:
        (staging / "a.txt").write_bytes(b"new")
        (staging / "model").mkdir()
        (staging / "model" / "c.txt").write_bytes(b"added")


def test_files_are_replaced_together(folder: Path) -> None:
    replace_all(folder)
    assert find_damage(folder) == {}
    files = content(folder)
    assert files.pop(FILE_NAME)
    assert files == {"a.txt": b"new", "model/c.txt": b"added"}


def test_only_the_named_files_are_replaced(folder: Path) -> None:
    with replacing_files(folder, ["a.txt", "empty"]) as staging:
        (staging / "a.txt").write_bytes(b"new")
    assert find_damage(folder) == {}
    assert set(read_checksums(folder) or ()) == set(content(folder)) - {FILE_NAME} == {"a.txt", "b.bin"}


def test_an_error_leaves_the_old_files(folder: Path) -> None:
    before = content(folder)
    with pytest.raises(FileNotFoundError), replacing_files(folder) as staging:
        (staging / "a.txt").rename(staging / "b.txt")
    assert content(folder) == before


def test_a_kill_at_any_moment_leaves_the_old_or_the_new_files(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = content(folder)
    states = []
    for operation in itertools.count():
        shutil.rmtree(folder, ignore_errors=True)
        for name, data in old.items():
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_bytes(data)
        finished = not killed_at(operation, monkeypatch, lambda: replace_all(folder))
        finish_replacement(folder)
        assert find_damage(folder) == {}
        states.append({name: data for name, data in content(folder).items() if not name.startswith(".")})
        if finished:
            break
    new = states[-1]
    assert set(new) == {"a.txt", "model/c.txt", FILE_NAME}
    n_old = states.index(new)
    assert n_old > 1
    assert len(states) > n_old + 4  # killed while the files are moved
    assert states == [old] * n_old + [new] * (len(states) - n_old)


def test_a_folder_without_checksums_is_not_verified(tmp_path: Path) -> None:
    verify_files(tmp_path, ["anything"])
    assert read_checksums(tmp_path) is None
