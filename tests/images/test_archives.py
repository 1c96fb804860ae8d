"""Images in zip, tar and npz archives, also in malicious and damaged ones."""

from __future__ import annotations

import copy
import gzip
import io
import os
import pickle
import shutil
import tarfile
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from cgmcr2.images import Catalog, decode, iter_decoded
from cgmcr2.images.archives import list_tar, list_zip
from cgmcr2.images.storage import file_info


def make_zip(path: Path, compression: int, png: Callable[..., bytes]) -> None:
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
def test_zip_refuses_names_outside_the_archive(
    tmp_path: Path, compression: int, png: Callable[..., bytes], red: Callable[[Catalog], list[int]]
) -> None:
    make_zip(tmp_path / "photos.ZIP", compression, png)
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
    assert red(pickle.loads(pickle.dumps(catalog))) == [1, 2, 5]  # as for another process


def test_zip_encrypted_and_oversized_members_are_errors(tmp_path: Path, png: Callable[..., bytes]) -> None:
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.png", png())
        archive.writestr("locked.png", png())
        archive.writestr("bomb.png", bytes(10_001))
    data = bytearray(path.read_bytes())
    entry = data.rindex(b"PK\x01\x02", 0, data.rindex(b"locked.png"))
    data[entry + 8] |= 1  # the flag for encryption
    path.write_bytes(data)
    listing, _ = list_zip(file_info(str(path)), max_member_bytes=10_000)
    assert listing.ids == ["a.png"]
    assert listing.errors[0] == ("locked.png", "encrypted with a password")
    assert "too large" in dict(listing.errors)["bomb.png"]


@pytest.mark.parametrize("ending", ["tar", "tar.gz", "tgz", "tar.bz2", "tar.xz"])
def test_tar_refuses_names_outside_the_archive(
    tmp_path: Path, ending: str, png: Callable[..., bytes], red: Callable[[Catalog], list[int]]
) -> None:
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
        add("device.png", type=tarfile.CHRTYPE)
        add("disk.png", type=tarfile.BLKTYPE)
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
        "device.png",
        "disk.png",
        "fifo.png",
        "hard.png",
        "link.png",
        "z.png",
    ]
    assert red(pickle.loads(pickle.dumps(catalog))) == [2, 3]


@pytest.mark.parametrize("compressed", [False, True])
def test_truncated_tar_keeps_the_members_before_the_damage(
    tmp_path: Path, compressed: bool, png: Callable[..., bytes]
) -> None:
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
    assert "damaged after 'b.png'" in catalog.errors[0][1]


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


def test_npz_without_images_is_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "features.npz", features=np.zeros((3, 4)))
    with pytest.raises(ValueError, match=r"needs the array 'images'.*contains features"):
        Catalog.from_source(tmp_path / "features.npz")
    np.savez(tmp_path / "float.npz", images=np.zeros((3, 4, 4, 3)))
    with pytest.raises(ValueError, match=r"float64 of shape \(3, 4, 4, 3\)"):
        Catalog.from_source(tmp_path / "float.npz")


def test_zip_member_that_expands_beyond_its_declared_size(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("bomb.png", bytes(40_000_000))
    data = path.read_bytes()
    size = (40_000_000).to_bytes(4, "little")
    path.write_bytes(data.replace(size, (1000).to_bytes(4, "little")))
    catalog = Catalog.from_source(path)
    assert catalog.sizes.tolist() == [1000]
    tracemalloc.start()
    with pytest.raises(zipfile.BadZipFile, match="CRC"):
        catalog[0].load()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 5_000_000


def test_overlapping_members_of_a_zip_are_refused(tmp_path: Path, png: Callable[..., bytes]) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("a.png", png(1))
        archive.writestr("b.png", png(2))
        for name in ("c.png", "d.png"):
            info = copy.copy(archive.getinfo("b.png"))
            info.filename = info.orig_filename = name
            archive.filelist.append(info)
    catalog = Catalog.from_source(tmp_path / "a.zip")
    overlapping = [id for id, reason in catalog.errors if "overlaps another member" in reason]
    assert len(overlapping) == 2
    assert catalog.ids[0] == "a.png"
    assert len(catalog) == 2  # the last one of the overlapping members is tried


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_zip_members_without_a_size_limit_are_refused(tmp_path: Path, method: int, png: Callable[..., bytes]) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("a.png", png())
        archive.writestr("b.png", png(), method)
    catalog = Catalog.from_source(tmp_path / "a.zip")
    assert catalog.ids == ["a.png"]
    assert "unsupported method" in dict(catalog.errors)["b.png"]


def test_nested_archive_is_not_an_image(tmp_path: Path, png: Callable[..., bytes]) -> None:
    with zipfile.ZipFile(tmp_path / "inner.zip", "w") as archive:
        archive.writestr("a.png", png())
    with zipfile.ZipFile(tmp_path / "outer.zip", "w") as archive:
        archive.write(tmp_path / "inner.zip", "inner.zip")
    results = list(iter_decoded(Catalog.from_source(tmp_path / "outer.zip"), np.asarray))
    assert results == [(0, "not an image, or an unsupported image format")]


@pytest.mark.parametrize("kind", ["gz", "bz2", "xz"])
def test_tar_bomb_is_not_expanded(tmp_path: Path, kind: str, png: Callable[..., bytes]) -> None:
    path = tmp_path / f"a.tar.{kind}"
    with tarfile.open(path, f"w:{kind}") as archive:  # type: ignore[call-overload]
        for name, data in (("a.png", png()), ("bomb.png", bytes(9_000_000)), ("b.png", png())):
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    assert list_tar(file_info(str(path)))[0].ids == ["a.png", "bomb.png", "b.png"]
    listing, _ = list_tar(file_info(str(path)), max_member_bytes=10**6, free_bytes=2**20)
    assert listing.ids == ["a.png"]
    assert "suspected decompression bomb" in dict(listing.errors)[path.name]


def test_tar_with_a_huge_header_is_damaged(tmp_path: Path, png: Callable[..., bytes]) -> None:
    path = tmp_path / "a.tar.gz"
    with tarfile.open(path, "w:gz", format=tarfile.PAX_FORMAT) as archive:
        for name, comment in (("a.png", "x" * 1000), ("b.png", "x" * 3_000_000)):
            info = tarfile.TarInfo(name)
            info.size, info.pax_headers = len(png()), {"comment": comment}
            archive.addfile(info, io.BytesIO(png()))
    catalog = Catalog.from_source(path)
    assert catalog.ids == ["a.png"]
    assert "a header has 3,0" in dict(catalog.errors)[path.name]


@pytest.mark.parametrize("kind", ["zip", "tar", "npz"])
def test_archive_that_changes_after_it_was_listed(tmp_path: Path, kind: str, png: Callable[..., bytes]) -> None:
    path = tmp_path / f"a.{kind}"
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "a.png").write_bytes(png())
    if kind == "npz":
        np.savez(path, images=np.zeros((2, 4, 4, 3), np.uint8))
    else:
        shutil.make_archive(str(tmp_path / "a"), kind, tmp_path / "photos")
    catalog = Catalog.from_source(path)
    assert decode(catalog[0]).mode == "RGB"
    path.write_bytes(path.read_bytes() + b"more")
    with pytest.raises(ValueError, match="has changed since it was listed"):
        decode(catalog[0])


def test_npz_that_declares_more_images_than_it_contains(tmp_path: Path) -> None:
    for shape in ("(9000000000, 4, 4, 3)", "(1, 90000, 90000, 3)", "(-1, 4, 4, 3)"):
        header = f"{{'descr': '|u1', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
        with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
            start = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little")
            archive.writestr("images.npy", start + header.encode() + bytes(48))
        with pytest.raises(ValueError, match="is damaged"):
            Catalog.from_source(tmp_path / "a.npz")


@pytest.mark.parametrize("kind", ["zip", "tar", "tar.gz", "npz"])
@pytest.mark.filterwarnings("ignore")
def test_mutated_archives_are_listed_or_refused_in_one_sentence(
    tmp_path: Path, kind: str, png: Callable[..., bytes]
) -> None:
    (tmp_path / "photos").mkdir()
    for number in range(3):
        (tmp_path / "photos" / f"{number}.png").write_bytes(png(number))
    path = tmp_path / f"a.{kind}"
    if kind == "npz":
        np.savez_compressed(path, images=np.random.default_rng(0).integers(0, 256, (3, 4, 4, 3), np.uint8))
    else:
        shutil.make_archive(str(tmp_path / "a"), "gztar" if kind == "tar.gz" else kind, tmp_path / "photos")
    data = path.read_bytes()
    random = np.random.default_rng(0)
    messages: list[str] = []
    for trial in range(300):
        broken = bytearray(data)
        for position in random.integers(0, len(data), 1 + trial % 5):
            broken[position] = random.integers(0, 256)
        path.write_bytes(broken[: random.integers(0, len(data))] if trial % 4 == 0 else broken)
        try:
            catalog = Catalog.from_source(path)
        except ValueError as error:
            messages.append(str(error))
            continue
        for _, result in iter_decoded(catalog, np.asarray, num_workers=1):
            assert isinstance(result, np.ndarray) or "\n" not in result
    assert messages
    assert all(path.name in text for text in messages)


@pytest.mark.parametrize("name", ["a.zip", "a.tar", "a.tar.gz", "a.npz"])
@pytest.mark.parametrize("content", [b"", b"not an archive at all" * 60])
def test_damaged_archives_raise_value_error(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=r"cannot be read as|No image was found"):
        Catalog.from_source(tmp_path / name)
