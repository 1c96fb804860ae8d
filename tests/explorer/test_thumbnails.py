from __future__ import annotations

import io
import os
import zipfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from cgmcr2.explorer.thumbnails import ThumbnailConfig, Thumbnails
from cgmcr2.images import Catalog

from ..colours import write_photos


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    return write_photos(tmp_path / "photos", 12)


def colour(data: bytes) -> int:
    """The strongest channel of an image file."""
    return int(np.asarray(Image.open(io.BytesIO(data))).mean(axis=(0, 1)).argmax())


def test_thumbnails_are_made_once(photos: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache" / "thumbnails.sqlite"
    thumbnails = Thumbnails(Catalog.from_source(photos), cache)
    data = [thumbnails.get(index) for index in range(12)]
    assert [colour(file) for file in data] == [index % 3 for index in range(12)]
    thumbnails.close()
    catalog = Catalog.from_source(photos)
    for file in photos.iterdir():
        file.unlink()
    thumbnails = Thumbnails(catalog, cache)
    assert [thumbnails.get(index) for index in range(12)] == data
    thumbnails.close()


def test_a_changed_image_gets_a_new_thumbnail(photos: Path, tmp_path: Path) -> None:
    thumbnails = Thumbnails(Catalog.from_source(photos), tmp_path / "thumbnails.sqlite")
    assert colour(thumbnails.get(0)) == 0
    thumbnails.close()
    os.replace(photos / "02.png", photos / "00.png")
    thumbnails = Thumbnails(Catalog.from_source(photos), tmp_path / "thumbnails.sqlite")
    assert colour(thumbnails.get(0)) == 2
    thumbnails.close()


def test_the_cache_is_bounded(tmp_path: Path) -> None:
    photos = tmp_path / "photos"
    photos.mkdir()
    rng = np.random.default_rng(0)
    for number in range(60):
        Image.fromarray(rng.integers(0, 256, (128, 128, 3), np.uint8)).save(photos / f"{number}.png")
    path, limit = tmp_path / "thumbnails.sqlite", 200_000
    thumbnails = Thumbnails(Catalog.from_source(photos), path, ThumbnailConfig(max_bytes=limit))
    for index in range(60):
        thumbnails.get(index)
    thumbnails.close()
    assert path.stat().st_size < 1.5 * limit


@pytest.mark.parametrize("damage", [b"", b"no database" * 100], ids=["empty", "damaged"])
def test_a_damaged_cache_is_replaced(photos: Path, tmp_path: Path, damage: bytes) -> None:
    path = tmp_path / "thumbnails.sqlite"
    path.write_bytes(damage)
    thumbnails = Thumbnails(Catalog.from_source(photos), path)
    assert colour(thumbnails.get(1)) == 1
    assert colour(thumbnails.get(1)) == 1
    thumbnails.close()


def test_without_a_file_thumbnails_are_kept_in_memory(photos: Path, tmp_path: Path) -> None:
    (tmp_path / "thumbnails.sqlite").mkdir()
    thumbnails = Thumbnails(Catalog.from_source(photos), tmp_path / "thumbnails.sqlite")
    assert colour(thumbnails.get(1)) == 1
    assert thumbnails.cached(1) is not None
    thumbnails.close()


def test_prefetching_makes_the_thumbnails_that_can_be_made(photos: Path, tmp_path: Path) -> None:
    (photos / "03.png").write_bytes(b"no image")
    path = tmp_path / "thumbnails.sqlite"
    thumbnails = Thumbnails(Catalog.from_source(photos), path)
    thumbnails.prefetch(range(12))
    assert thumbnails._thread is not None
    thumbnails._thread.join(60)
    catalog = thumbnails.catalog
    thumbnails.close()
    for file in photos.iterdir():
        file.unlink()
    thumbnails = Thumbnails(catalog, path)
    for index in range(12):
        if index == 3:
            with pytest.raises(FileNotFoundError):
                thumbnails.get(index)
        else:
            assert colour(thumbnails.get(index)) == index % 3
    thumbnails.close()


def test_images_in_an_archive(photos: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "photos.zip", "w") as archive:
        for file in sorted(photos.iterdir()):
            archive.write(file, file.name)
    thumbnails = Thumbnails(Catalog.from_source(tmp_path / "photos.zip"), tmp_path / "thumbnails.sqlite")
    assert [colour(thumbnails.get(index)) for index in (5, 1, 3)] == [2, 1, 0]
    thumbnails.close()
