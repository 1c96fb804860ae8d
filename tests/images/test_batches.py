"""Many images at once: in order, bounded, with the broken ones told apart."""

from __future__ import annotations

import io
import itertools
import sys
import tarfile
import threading
import time
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO

import numpy as np
import pytest
from PIL import Image

from cgmcr2.images import Catalog, iter_decoded, sources


def fill(folder: Path, count: int) -> None:
    for number in range(count):
        Image.new("RGB", (4, 4), (number, 0, 0)).save(folder / f"{number:03}.png")


def red(image: Image.Image) -> int:
    return int(image.getpixel((0, 0))[0])  # type: ignore[index]


@pytest.mark.parametrize(("workers", "window"), [(1, 1), (4, 3), (8, 64), (None, 200)])
def test_order_is_kept_however_long_each_takes(tmp_path: Path, workers: int | None, window: int) -> None:
    fill(tmp_path, 40)

    def slow(image: Image.Image) -> int:
        time.sleep((red(image) * 7 % 5) / 1000)
        return red(image)

    catalog = Catalog.from_source(tmp_path)
    results = list(iter_decoded(catalog, slow, num_workers=workers, window=window))
    assert results == [(number, number) for number in range(40)]


def test_broken_files_are_reasons_in_their_place(tmp_path: Path) -> None:
    fill(tmp_path, 5)
    (tmp_path / "001.png").write_bytes(b"")
    (tmp_path / "003.png").write_bytes(b"text")

    def picky(image: Image.Image) -> int:
        if red(image) == 4:
            raise RuntimeError("too  narrow\nfor this encoder")
        return red(image)

    results = dict(iter_decoded(Catalog.from_source(tmp_path), picky))
    assert results[0] == 0
    assert results[2] == 2
    assert results[1] == "the file is empty"
    assert str(results[3]).startswith("not an image")
    assert results[4] == "broken: too narrow for this encoder"


def test_only_the_asked_ones_in_the_asked_order(tmp_path: Path) -> None:
    fill(tmp_path, 10)
    assert list(iter_decoded(Catalog.from_source(tmp_path), red, indices=[7, 2, 2])) == [(7, 7), (2, 2), (2, 2)]


def test_a_slow_consumer_is_waited_for(tmp_path: Path) -> None:
    fill(tmp_path, 60)
    started = itertools.count()
    lock = threading.Lock()
    seen = 0

    def count(image: Image.Image) -> int:
        nonlocal seen
        with lock:
            seen = next(started) + 1
        return red(image)

    results = iter_decoded(Catalog.from_source(tmp_path), count, num_workers=4, window=8)
    next(results)
    time.sleep(0.1)
    assert seen <= 8
    results.close()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("decode")]


@pytest.mark.parametrize("kind", ["zip", "tar", "tar.gz", "npz"])
def test_archives_from_many_threads(tmp_path: Path, kind: str) -> None:
    count = 120
    path = tmp_path / f"a.{kind}"
    random = np.random.default_rng(0)
    images = random.integers(0, 256, (count, 50, 40, 3), np.uint8)

    def encoded(number: int) -> bytes:
        file = io.BytesIO()
        Image.fromarray(images[number]).save(file, "PNG")
        return file.getvalue()

    if kind == "zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for number in range(count):
                archive.writestr(f"{number}.png", encoded(number))
    elif kind == "npz":
        np.savez_compressed(path, images=images)
    else:
        with tarfile.open(path, "w:gz" if kind == "tar.gz" else "w") as tar:
            for number in range(count):
                info = tarfile.TarInfo(f"{number}.png")
                info.size = len(encoded(number))
                tar.addfile(info, io.BytesIO(encoded(number)))
    results = list(iter_decoded(Catalog.from_source(path), np.asarray, num_workers=8))
    assert [index for index, _ in results] == list(range(count))
    np.testing.assert_array_equal(np.stack([pixels for _, pixels in results]), images)


def test_a_compressed_stream_is_read_once_from_start_to_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.tar.gz"
    noise = np.random.default_rng(0).integers(0, 256, (50, 64, 64, 3), np.uint8)
    with tarfile.open(path, "w:gz") as tar:
        for number, pixels in enumerate(noise):
            file = io.BytesIO()
            Image.fromarray(pixels).save(file, "PNG")
            info = tarfile.TarInfo(f"{number}.png")
            info.size = len(file.getvalue())
            tar.addfile(info, io.BytesIO(file.getvalue()))
    catalog = Catalog.from_source(path)
    offsets: list[int] = []

    def note(file: IO[bytes], offset: int, length: int) -> bytes:
        offsets.append(offset)
        return read(file, offset, length)

    read = sources._read
    monkeypatch.setattr(sources, "_read", note)
    assert sum(1 for _, result in iter_decoded(catalog, red, num_workers=8) if isinstance(result, int)) == 50
    assert offsets == sorted(offsets)


def test_bad_settings_are_refused(tmp_path: Path) -> None:
    fill(tmp_path, 1)
    with pytest.raises(ValueError, match="at least 1"):
        next(iter_decoded(Catalog.from_source(tmp_path), red, num_workers=0))


@pytest.mark.parametrize("kind", ["zip", "tar"])
def test_threads_do_not_read_each_others_bytes(tmp_path: Path, kind: str) -> None:
    contents = [bytes([number]) * 20_000 for number in range(200)]
    path = tmp_path / f"a.{kind}"
    if kind == "zip":
        with zipfile.ZipFile(path, "w") as archive:
            for number, data in enumerate(contents):
                archive.writestr(str(number), data)
    else:
        with tarfile.open(path, "w") as tar:
            for number, data in enumerate(contents):
                info = tarfile.TarInfo(str(number))
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))
    catalog = Catalog.from_source(path)

    def is_right(number: int) -> bool:
        return catalog[number].load().read() == contents[number]  # type: ignore[union-attr]

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)  # threads get in each other's way as often as they can
    try:
        with ThreadPoolExecutor(8) as pool:
            assert all(pool.map(is_right, list(range(200)) * 10))
    finally:
        sys.setswitchinterval(interval)
