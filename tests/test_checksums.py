from __future__ import annotations

from pathlib import Path

import pytest

from cgmcr2._checksums import FILE_NAME, DamagedFileError, find_damage, read_checksums, record_checksums, verify_files


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


def test_recording_again_updates_and_drops(folder: Path) -> None:
    (folder / "a.txt").write_bytes(b"second")
    (folder / "empty").unlink()
    record_checksums(folder, ["a.txt"])
    assert find_damage(folder) == {}
    assert set(read_checksums(folder) or ()) == {"a.txt", "b.bin"}


def test_a_folder_without_checksums_is_not_verified(tmp_path: Path) -> None:
    verify_files(tmp_path, ["anything"])
    assert read_checksums(tmp_path) is None
