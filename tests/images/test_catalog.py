"""Catalogs: sources, fingerprints, errors."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from cgmcr2.images import Catalog, decode


def test_fifo_that_replaces_a_listed_photo_does_not_block(tmp_path: Path, png: Callable[..., bytes]) -> None:
    (tmp_path / "a.png").write_bytes(png())
    catalog = Catalog.from_source(tmp_path)
    (tmp_path / "a.png").unlink()
    os.mkfifo(tmp_path / "a.png")
    with pytest.raises(ValueError, match="a FIFO"):
        decode(catalog[0])


def test_fingerprint_changes_with_any_added_removed_or_changed_file(tmp_path: Path, png: Callable[..., bytes]) -> None:
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


def test_catalog_of_one_image_file(
    tmp_path: Path, png: Callable[..., bytes], red: Callable[[Catalog], list[int]]
) -> None:
    (tmp_path / "a.png").write_bytes(png(7))
    assert red(Catalog.from_source(tmp_path / "a.png")) == [7]


def test_from_paths(tmp_path: Path, png: Callable[..., bytes], red: Callable[[Catalog], list[int]]) -> None:
    for number, name in enumerate(["a.png", "b.png"]):
        (tmp_path / name).write_bytes(png(number))
    catalog = Catalog.from_paths([tmp_path / "b.png", "a.png"], base=tmp_path)
    assert catalog.ids == [str(tmp_path / "b.png"), "a.png"]
    assert red(catalog) == [1, 0]


def test_sources_without_images_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no file or folder"):
        Catalog.from_source(tmp_path / "absent")
    with pytest.raises(ValueError, match="No image was found in"):
        Catalog.from_source(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ValueError, match=r"No image was found in .*\(1 skipped, the first: 'pipe', a FIFO"):
        Catalog.from_source(tmp_path)
    with pytest.raises(ValueError, match="neither a folder nor a file"):
        Catalog.from_source(tmp_path / "pipe")
