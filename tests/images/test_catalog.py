"""Which images there are: folders with traps in them, lists, archives; nothing is opened, nothing stops the rest."""

from __future__ import annotations

import gzip
import io
import os
import pickle
import socket
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from cgmcr2.images import Catalog, decode


def png(colour: int = 0, size: tuple[int, int] = (5, 4)) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", size, (colour, 0, 0)).save(file, "PNG")
    return file.getvalue()


def red(catalog: Catalog) -> list[int]:
    """The red value of each image: tells them apart, whatever their names."""
    return [decode(item).getpixel((0, 0))[0] for item in catalog]  # type: ignore[index]


def test_folder_is_recursive_sorted_and_skips_what_systems_leave(tmp_path: Path) -> None:
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


def test_fifo_socket_dangling_and_circular_links_are_listed_and_never_opened(tmp_path: Path) -> None:
    (tmp_path / "ok.png").write_bytes(png())
    os.mkfifo(tmp_path / "pipe.jpg")
    (tmp_path / "gone.jpg").symlink_to("nowhere.jpg")
    (tmp_path / "self.jpg").symlink_to("self.jpg")
    (tmp_path / "null.jpg").symlink_to("/dev/null")
    (tmp_path / "good-link.png").symlink_to("ok.png")
    with socket.socket(socket.AF_UNIX) as server:
        here = os.getcwd()
        os.chdir(tmp_path)  # the path of a socket must be short
        server.bind("socket.jpg")
        os.chdir(here)
        catalog = Catalog.from_source(tmp_path)
    assert catalog.ids == ["good-link.png", "ok.png"]
    assert dict(catalog.errors) == {
        "gone.jpg": "does not exist (a dangling link, or a wrong path)",
        "null.jpg": "a device, not a file",
        "pipe.jpg": "a FIFO, not a file",
        "self.jpg": "is a link that leads to itself",
        "socket.jpg": "a socket, not a file",
    }


def test_a_fifo_put_in_place_of_a_photo_after_the_listing_does_not_block(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(png())
    catalog = Catalog.from_source(tmp_path)
    (tmp_path / "a.png").unlink()
    os.mkfifo(tmp_path / "a.png")
    with pytest.raises(ValueError, match="a FIFO"):
        decode(catalog[0])


def test_linked_folders_are_entered_once_and_loops_end(tmp_path: Path) -> None:
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
def test_a_folder_that_may_not_be_read_is_listed(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(png())
    (tmp_path / "locked").mkdir(mode=0)
    catalog = Catalog.from_source(tmp_path)
    assert catalog.errors == [("locked", "the folder cannot be read: Permission denied")]


def test_excluded_folders_are_left_out_without_a_word(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(png())
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "thumb.png").write_bytes(png())
    catalog = Catalog.from_source(tmp_path, exclude=[tmp_path / "run", tmp_path / "absent"])
    assert catalog.ids == ["a.png"]
    assert catalog.errors == []
    with pytest.raises(ValueError, match="cannot be the folder of the images itself"):
        Catalog.from_source(tmp_path, exclude=[tmp_path])


ODD_NAMES = [
    b"new\nline.png",
    b"quo\"te's.png",
    b"<script>alert(1)<script>.png",
    b"caf\xe9.png",
    b"\xff\xfe.png",
    b" .png",
    "日本.png".encode(),
]


def test_odd_names_work_through(tmp_path: Path) -> None:
    for number, name in enumerate(ODD_NAMES):
        (tmp_path / os.fsdecode(name)).write_bytes(png(number))
    catalog = Catalog.from_source(tmp_path)
    assert sorted(os.fsencode(id) for id in catalog.ids) == sorted(ODD_NAMES)
    assert [ODD_NAMES[value] for value in red(catalog)] == [os.fsencode(id) for id in catalog.ids]
    assert len(catalog.fingerprint) == 64


def test_fingerprint_follows_additions_removals_changes_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(png(1))
    (tmp_path / "b.png").write_bytes(png(2))
    first = Catalog.from_source(tmp_path).fingerprint
    assert Catalog.from_source(tmp_path).fingerprint == first
    (tmp_path / "c.png").write_bytes(png(3))
    assert Catalog.from_source(tmp_path).fingerprint != first
    (tmp_path / "c.png").unlink()
    assert Catalog.from_source(tmp_path).fingerprint == first
    os.utime(tmp_path / "a.png", ns=(1, 1))
    assert Catalog.from_source(tmp_path).fingerprint != first


def test_text_list_keeps_its_order_and_counts_repeats_once(tmp_path: Path) -> None:
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


def test_text_list_separated_by_nul_may_hold_any_name(tmp_path: Path) -> None:
    for number, name in enumerate(ODD_NAMES):
        (tmp_path / os.fsdecode(name)).write_bytes(png(number))
    (tmp_path / "list.txt").write_bytes(b"\0".join(ODD_NAMES) + b"\0")
    catalog = Catalog.from_source(tmp_path / "list.txt")
    assert [os.fsencode(id) for id in catalog.ids] == ODD_NAMES
    assert red(catalog) == list(range(len(ODD_NAMES)))


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
def test_csv_finds_the_column(tmp_path: Path, text: str) -> None:
    for name in ("a.png", "b.png"):
        (tmp_path / name).write_bytes(png())
    (tmp_path / "list.csv").write_text(text)
    catalog = Catalog.from_source(tmp_path / "list.csv")
    assert catalog.ids == ["a.png", "b.png"]
    assert catalog.errors == []


def test_csv_with_quoted_newlines_and_a_missing_first_file(tmp_path: Path) -> None:
    (tmp_path / "new\nline.png").write_bytes(png())
    (tmp_path / "list.csv").write_text('gone.png\n"new\nline.png"\n')
    catalog = Catalog.from_source(tmp_path / "list.csv")
    assert catalog.ids == ["new\nline.png"]
    assert catalog.errors[0][0] == "gone.png"


def make_zip(path: Path, compression: int) -> None:
    with zipfile.ZipFile(path, "w", compression) as archive:
        archive.writestr("folder/", "")
        archive.writestr("folder/b.png", png(1))
        archive.writestr("./a.png", png(2))
        archive.writestr("../evil.png", png(3))
        archive.writestr("/etc/evil.png", png(3))
        archive.writestr("x\\..\\..\\evil.png", png(3))
        archive.writestr("C:evil.png", png(3))
        archive.writestr("__MACOSX/._a.png", b"x")
        link = zipfile.ZipInfo("link.png")
        link.external_attr = 0o120777 << 16
        archive.writestr(link, "/etc/passwd")
        archive.writestr("twice.png", png(4))
        with pytest.warns(UserWarning, match="Duplicate name"):
            archive.writestr("twice.png", png(5))


@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_zip_refuses_what_points_outside_and_reads_the_rest(tmp_path: Path, compression: int) -> None:
    make_zip(tmp_path / "photos.ZIP", compression)
    catalog = Catalog.from_source(tmp_path / "photos.ZIP")
    assert catalog.ids == ["folder/b.png", "a.png", "twice.png"]
    assert red(catalog) == [1, 2, 5]
    assert [id for id, reason in catalog.errors if "points outside" in reason] == [
        "../evil.png",
        "/etc/evil.png",
        "x\\..\\..\\evil.png",
        "C:evil.png",
    ]
    assert ("link.png", "a link, not a file") in catalog.errors
    assert red(pickle.loads(pickle.dumps(catalog))) == [1, 2, 5]  # to other processes


def test_zip_encrypted_and_oversized_members_are_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cgmcr2.images.archives.MAX_MEMBER_BYTES", 10_000)
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.png", png())
        archive.writestr("locked.png", png())
        archive.writestr("bomb.png", bytes(10_001))
    data = bytearray(path.read_bytes())
    entry = data.rindex(b"PK\x01\x02", 0, data.rindex(b"locked.png"))
    data[entry + 8] |= 1  # the flag that says encrypted
    path.write_bytes(data)
    catalog = Catalog.from_source(path)
    assert catalog.ids == ["a.png"]
    assert catalog.errors[0] == ("locked.png", "encrypted with a password")
    assert "too large" in dict(catalog.errors)["bomb.png"]


@pytest.mark.parametrize("ending", ["tar", "tar.gz", "tgz", "tar.bz2", "tar.xz"])
def test_tar_refuses_what_points_outside_and_reads_the_rest(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"photos.{ending}"
    kind = {"tar": "w", "gz": "w:gz", "tgz": "w:gz", "bz2": "w:bz2", "xz": "w:xz"}[ending.split(".")[-1]]
    with tarfile.open(path, kind) as archive:  # type: ignore[call-overload]

        def add(name: str, data: bytes = b"", type: bytes = tarfile.REGTYPE) -> None:
            info = tarfile.TarInfo(name)
            info.size, info.type, info.linkname = len(data), type, "/etc/passwd"
            archive.addfile(info, io.BytesIO(data))

        add(".", type=tarfile.DIRTYPE)
        add("./z.png", png(1))
        add("../evil.png", png(9))
        add("/evil.png", png(9))
        add("link.png", type=tarfile.SYMTYPE)
        add("hard.png", type=tarfile.LNKTYPE)
        add("fifo.png", type=tarfile.FIFOTYPE)
        add(os.fsdecode(b"caf\xe9\n.png"), png(2))
        add("._z.png", b"x")
        add("z.png", png(3))
    catalog = Catalog.from_source(path)
    assert catalog.ids == [os.fsdecode(b"caf\xe9\n.png"), "z.png"]
    assert red(catalog) == [2, 3]
    assert [decode(catalog[i]).getpixel((0, 0))[0] for i in (1, 0, 1)] == [3, 2, 3]  # type: ignore[index]
    assert sorted(id for id, _ in catalog.errors) == [
        "../evil.png",
        "/evil.png",
        "fifo.png",
        "hard.png",
        "link.png",
        "z.png",
    ]
    assert red(pickle.loads(pickle.dumps(catalog))) == [2, 3]


@pytest.mark.parametrize("compressed", [False, True])
def test_tar_that_ends_too_early_keeps_what_came_before(tmp_path: Path, compressed: bool) -> None:
    plain = io.BytesIO()
    noise = np.random.default_rng(0).integers(0, 256, 20_000, np.uint8).tobytes()
    with tarfile.open(fileobj=plain, mode="w") as archive:
        for name, data in (("a.png", png(1)), ("b.png", noise), ("c.png", png(3))):
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    data = plain.getvalue()[:12_000]
    path = tmp_path / ("broken.tar.gz" if compressed else "broken.tar")
    path.write_bytes(gzip.compress(data) if compressed else data)
    catalog = Catalog.from_source(path)
    assert catalog.ids == ["a.png", "b.png"]
    assert decode(catalog[0]).getpixel((0, 0)) == (1, 0, 0)
    with pytest.raises(ValueError, match="ends before"):
        decode(catalog[1])
    assert catalog.errors[0][0] == path.name
    assert "broken" in catalog.errors[0][1]


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
@pytest.mark.parametrize("shape", [(6, 4, 5, 3), (6, 4, 5), (6, 4, 5, 1)])
def test_npz_rows_are_images(tmp_path: Path, save: object, shape: tuple[int, ...]) -> None:
    images = np.random.default_rng(0).integers(0, 256, shape, np.uint8)
    save(tmp_path / "a.npz", labels=np.arange(6), images=images)  # type: ignore[operator]
    catalog = Catalog.from_source(tmp_path / "a.npz")
    assert catalog.ids == [str(row) for row in range(6)]
    for row in (0, 1, 2, 5, 3):
        expected = (
            images[row] if len(shape) == 4 and shape[3] == 3 else np.repeat(images[row].reshape(4, 5, 1), 3, axis=2)
        )
        np.testing.assert_array_equal(np.asarray(decode(catalog[row])), expected)
    assert np.asarray(pickle.loads(pickle.dumps(catalog))[3].open()).shape[:2] == (4, 5)


def test_npz_of_something_else_is_refused_with_what_it_holds(tmp_path: Path) -> None:
    np.savez(tmp_path / "features.npz", features=np.zeros((3, 4)))
    with pytest.raises(ValueError, match=r"needs the array 'images'.*holds features"):
        Catalog.from_source(tmp_path / "features.npz")
    np.savez(tmp_path / "float.npz", images=np.zeros((3, 4, 4, 3)))
    with pytest.raises(ValueError, match=r"float64 of shape \(3, 4, 4, 3\)"):
        Catalog.from_source(tmp_path / "float.npz")


@pytest.mark.parametrize("name", ["a.zip", "a.tar", "a.tar.gz", "a.npz"])
@pytest.mark.parametrize("content", [b"", b"not an archive at all" * 60])
def test_broken_archives_are_one_sentence(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=r"cannot be read as|No image was found"):
        Catalog.from_source(tmp_path / name)


def test_one_image_file_is_a_catalog_of_one(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(png(7))
    assert red(Catalog.from_source(tmp_path / "a.png")) == [7]


def test_paths_from_python(tmp_path: Path) -> None:
    for number, name in enumerate(["a.png", "b.png"]):
        (tmp_path / name).write_bytes(png(number))
    catalog = Catalog.from_paths([tmp_path / "b.png", "a.png"], base=tmp_path)
    assert catalog.ids == [str(tmp_path / "b.png"), "a.png"]
    assert red(catalog) == [1, 0]


def test_nothing_to_do_is_one_clear_sentence(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no file or folder"):
        Catalog.from_source(tmp_path / "absent")
    with pytest.raises(ValueError, match="No image was found in"):
        Catalog.from_source(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ValueError, match=r"No image was found in .*\(1 set aside, the first: 'pipe', a FIFO"):
        Catalog.from_source(tmp_path)
    with pytest.raises(ValueError, match="neither a folder nor a file"):
        Catalog.from_source(tmp_path / "pipe")


def test_nothing_is_opened_while_listing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(20):
        (tmp_path / f"{number:02}.png").write_bytes(png())

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a file was opened")

    monkeypatch.setattr("os.open", refuse)
    monkeypatch.setattr("builtins.open", refuse)
    assert len(Catalog.from_source(tmp_path)) == 20
