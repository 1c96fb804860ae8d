"""Folders with special files and links, lists of paths, CSV files."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from cgmcr2.images import Catalog


def test_folder_is_recursive_sorted_and_without_system_files(
    tmp_path: Path, png: Callable[..., bytes], red: Callable[[Catalog], list[int]]
) -> None:
    for number, name in enumerate(["b.png", "a/z.png", "a/b/c.png", "B.PNG"]):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(png(number))
    for name in (".DS_Store", "Thumbs.db", "a/desktop.ini", ".hidden/x.png", "@eaDir/t.png"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"x")
    catalog = Catalog.from_source(tmp_path)
    assert catalog.ids == ["B.PNG", "a/b/c.png", "a/z.png", "b.png"]
    assert red(catalog) == [3, 2, 1, 0]
    assert catalog.errors == []
    assert catalog.find("a/z.png").size == len(png(1))
    assert catalog[-1].id == "b.png"
    with pytest.raises(IndexError):
        catalog[4]


def test_special_files_and_broken_links_are_errors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, png: Callable[..., bytes]
) -> None:
    (tmp_path / "ok.png").write_bytes(png())
    os.mkfifo(tmp_path / "pipe.jpg")
    (tmp_path / "gone.jpg").symlink_to("nowhere.jpg")
    (tmp_path / "self.jpg").symlink_to("self.jpg")
    (tmp_path / "null.jpg").symlink_to("/dev/null")
    (tmp_path / "good-link.png").symlink_to("ok.png")
    with socket.socket(socket.AF_UNIX) as server:
        monkeypatch.chdir(tmp_path)  # the path of a socket must be short
        server.bind("socket.jpg")
        catalog = Catalog.from_source(tmp_path)
    assert catalog.ids == ["good-link.png", "ok.png"]
    assert dict(catalog.errors) == {
        "gone.jpg": "does not exist (a dangling link or a wrong path)",
        "null.jpg": "a device, not a file",
        "pipe.jpg": "a FIFO, not a file",
        "self.jpg": "is a link to itself",
        "socket.jpg": "a socket, not a file",
    }


def test_linked_folders_are_visited_once(tmp_path: Path, png: Callable[..., bytes]) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    (root / "sub").mkdir(parents=True)
    outside.mkdir()
    (root / "sub" / "a.png").write_bytes(png())
    (outside / "b.png").write_bytes(png())
    (root / "sub" / "up").symlink_to(root)
    (root / "aa-twin").symlink_to(root / "sub")
    (root / "everything").symlink_to("/")
    (root / "linked").symlink_to(outside)
    (root / "linked-again").symlink_to(outside)
    (outside / "back").symlink_to(root)
    catalog = Catalog.from_source(root)
    assert catalog.ids == ["linked/b.png", "sub/a.png"]
    assert [id for id, reason in catalog.errors if "already" in reason] == [
        "aa-twin",
        "everything",
        "linked-again",
        "linked/back",
        "sub/up",
    ]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every folder")
def test_unreadable_folder_is_an_error(tmp_path: Path, png: Callable[..., bytes]) -> None:
    (tmp_path / "a.png").write_bytes(png())
    (tmp_path / "locked").mkdir(mode=0)
    catalog = Catalog.from_source(tmp_path)
    assert catalog.errors == [("locked", "the folder cannot be read: Permission denied")]


def test_excluded_folders_are_skipped_without_an_error(tmp_path: Path, png: Callable[..., bytes]) -> None:
    (tmp_path / "a.png").write_bytes(png())
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "thumb.png").write_bytes(png())
    catalog = Catalog.from_source(tmp_path, exclude=[tmp_path / "run", tmp_path / "absent"])
    assert catalog.ids == ["a.png"]
    assert catalog.errors == []
    with pytest.raises(ValueError, match="output folder cannot be the image folder"):
        Catalog.from_source(tmp_path, exclude=[tmp_path])


UNUSUAL_NAMES = [
    b"new\nline.png",
    b"quo\"te's.png",
    b"<script>alert(1)<script>.png",
    b"caf\xe9.png",
    b"\xff\xfe.png",
    b" .png",
    "日本.png".encode(),
    "\N{GRINNING FACE} two  spaces.png".encode(),
    b"n" * 251 + b".png",  # the longest name of most file systems
]


def test_unusual_file_names(tmp_path: Path, png: Callable[..., bytes], red: Callable[[Catalog], list[int]]) -> None:
    for number, name in enumerate(UNUSUAL_NAMES):
        (tmp_path / os.fsdecode(name)).write_bytes(png(number))
    catalog = Catalog.from_source(tmp_path)
    assert sorted(os.fsencode(id) for id in catalog.ids) == sorted(UNUSUAL_NAMES)
    assert [UNUSUAL_NAMES[value] for value in red(catalog)] == [os.fsencode(id) for id in catalog.ids]
    assert len(catalog.fingerprint) == 64


def test_file_that_becomes_a_fifo_after_listing_does_not_block(tmp_path: Path, png: Callable[..., bytes]) -> None:
    (tmp_path / "a.png").write_bytes(png())
    catalog = Catalog.from_source(tmp_path)
    (tmp_path / "a.png").unlink()
    os.mkfifo(tmp_path / "a.png")
    with pytest.raises(ValueError, match="a FIFO, not a file"):
        catalog[0].load()


def test_file_that_is_too_large_for_an_image(tmp_path: Path, png: Callable[..., bytes]) -> None:
    (tmp_path / "a.png").write_bytes(png())
    os.truncate(tmp_path / "a.png", 2**31)  # a sparse file, which takes no space
    with pytest.raises(ValueError, match="too large for an image: 2048 MB, the limit is 1024 MB"):
        Catalog.from_source(tmp_path)[0].load()


def test_text_list_keeps_its_order_and_ignores_repeats(
    tmp_path: Path, png: Callable[..., bytes], red: Callable[[Catalog], list[int]]
) -> None:
    for number, name in enumerate(["b.png", "a.png"]):
        (tmp_path / name).write_bytes(png(number))
    absolute = tmp_path / "sub" / "c.png"
    absolute.parent.mkdir()
    absolute.write_bytes(png(2))
    (tmp_path / "list.txt").write_text(
        f"\ufeffb.png\r\n\n{absolute}\na.png\nb.png\nmissing.png\nsub\n", encoding="utf-8"
    )
    catalog = Catalog.from_source(tmp_path / "list.txt")
    assert catalog.ids == ["b.png", str(absolute), "a.png"]
    assert red(catalog) == [0, 2, 1]
    assert [id for id, _ in catalog.errors] == ["b.png", "missing.png", "sub"]
    assert "more than once" in catalog.errors[0][1]


def test_text_list_separated_by_nul(
    tmp_path: Path, png: Callable[..., bytes], red: Callable[[Catalog], list[int]]
) -> None:
    for number, name in enumerate(UNUSUAL_NAMES):
        (tmp_path / os.fsdecode(name)).write_bytes(png(number))
    (tmp_path / "list.txt").write_bytes(b"\0".join(UNUSUAL_NAMES) + b"\0")
    catalog = Catalog.from_source(tmp_path / "list.txt")
    assert [os.fsencode(id) for id in catalog.ids] == UNUSUAL_NAMES
    assert red(catalog) == list(range(len(UNUSUAL_NAMES)))


@pytest.mark.parametrize(
    "text",
    [
        "path,label\na.png,1\nb.png,2\n",
        "label;FileName\n1;a.png\n2;b.png\n",
        "a.png\nb.png\n",
        "picture\na.png\nb.png\n",
        'id,image\n1,"a.png"\n2,b.png\n\n3\n',
        "label\tfile\n1\ta.png\n2\tb.png\n",
    ],
)
def test_csv_path_column(tmp_path: Path, text: str, png: Callable[..., bytes]) -> None:
    for name in ("a.png", "b.png"):
        (tmp_path / name).write_bytes(png())
    (tmp_path / "list.csv").write_text(text)
    catalog = Catalog.from_source(tmp_path / "list.csv")
    assert catalog.ids == ["a.png", "b.png"]
    assert catalog.errors == []


def test_csv_with_quoted_newlines_and_a_missing_first_file(tmp_path: Path, png: Callable[..., bytes]) -> None:
    (tmp_path / "new\nline.png").write_bytes(png())
    (tmp_path / "list.csv").write_text('gone.png\n"new\nline.png"\n')
    catalog = Catalog.from_source(tmp_path / "list.csv")
    assert catalog.ids == ["new\nline.png"]
    assert catalog.errors[0][0] == "gone.png"


def test_listing_opens_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, png: Callable[..., bytes]) -> None:
    for number in range(20):
        (tmp_path / f"{number:02}.png").write_bytes(png())

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a file was opened")

    monkeypatch.setattr("os.open", refuse)
    monkeypatch.setattr("builtins.open", refuse)
    assert len(Catalog.from_source(tmp_path)) == 20
