"""Images in zip, tar and npz archives, also in malicious and damaged ones."""

from __future__ import annotations

import gzip
import io
import os
import pickle
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from cgmcr2.images import Catalog, decode
from cgmcr2.images.archives import list_zip


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
    listing, _ = list_zip(str(path), max_member_bytes=10_000)
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


@pytest.mark.parametrize("name", ["a.zip", "a.tar", "a.tar.gz", "a.npz"])
@pytest.mark.parametrize("content", [b"", b"not an archive at all" * 60])
def test_damaged_archives_raise_value_error(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=r"cannot be read as|No image was found"):
        Catalog.from_source(tmp_path / name)
