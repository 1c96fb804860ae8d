"""Decode many images: in order, with bounded memory, and reasons for the damaged ones."""

from __future__ import annotations

import io
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from cgmcr2.images import Catalog, iter_decoded
from cgmcr2.images.sources import ImageData, Source


def fill(folder: Path, count: int) -> None:
    for number in range(count):
        Image.new("RGB", (4, 4), (number, 0, 0)).save(folder / f"{number:03}.png")


def red(image: Image.Image) -> int:
    return int(image.getpixel((0, 0))[0])  # type: ignore[index]


@pytest.mark.parametrize(("workers", "window"), [(1, 1), (2, 2), (4, 3), (8, 64), (None, 200)])
def test_results_are_in_order_if_later_images_finish_first(tmp_path: Path, workers: int | None, window: int) -> None:
    fill(tmp_path, 40)
    finished = [threading.Event() for _ in range(40)]

    def swap_pairs(image: Image.Image) -> int:
        """With two threads or more, every even image waits for the odd one after it."""
        number = red(image)
        if (workers or 1) > 1 and number % 2 == 0:
            finished[number + 1].wait(timeout=5)  # the limit only matters if the order is wrong
        finished[number].set()
        return number

    catalog = Catalog.from_source(tmp_path)
    results = list(iter_decoded(catalog, swap_pairs, num_workers=workers, window=window))
    assert results == [(number, number) for number in range(40)]


def test_damaged_files_give_reasons_in_order(tmp_path: Path) -> None:
    fill(tmp_path, 5)
    (tmp_path / "001.png").write_bytes(b"")
    (tmp_path / "003.png").write_bytes(b"text")

    def reject_the_last(image: Image.Image) -> int:
        if red(image) == 4:
            raise RuntimeError("too  narrow\nfor this encoder")
        return red(image)

    results = dict(iter_decoded(Catalog.from_source(tmp_path), reject_the_last))
    assert results[0] == 0
    assert results[2] == 2
    assert results[1] == "the file is empty"
    assert str(results[3]).startswith("not an image")
    assert results[4] == "damaged: too narrow for this encoder"


def test_indices_select_and_order_the_images(tmp_path: Path) -> None:
    fill(tmp_path, 10)
    assert list(iter_decoded(Catalog.from_source(tmp_path), red, indices=[7, 2, 2])) == [(7, 7), (2, 2), (2, 2)]


def test_at_most_window_images_are_started_ahead_of_the_consumer(tmp_path: Path) -> None:
    fill(tmp_path, 60)
    started: list[int] = []

    def indices() -> Iterator[int]:
        for index in range(60):
            started.append(index)
            yield index

    results = iter_decoded(Catalog.from_source(tmp_path), red, indices=indices(), num_workers=4, window=8)
    next(results)
    assert len(started) == 8
    next(results)
    assert len(started) == 9
    results.close()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("decode")]


@pytest.mark.parametrize("kind", ["zip", "tar", "tar.gz", "npz"])
def test_archives_with_many_threads(tmp_path: Path, kind: str) -> None:
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


class RecordingSource:
    """Passes calls on to another source and records their order."""

    def __init__(self, source: Source) -> None:
        self.source, self.sequential = source, source.sequential
        self.indices: list[int] = []

    def load(self, index: int, id: str) -> ImageData:
        self.indices.append(index)
        return self.source.load(index, id)


def test_compressed_stream_is_read_in_order(tmp_path: Path) -> None:
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
    source = RecordingSource(catalog.source)
    catalog.source = source
    assert sum(1 for _, result in iter_decoded(catalog, red, num_workers=8) if isinstance(result, int)) == 50
    assert source.indices == list(range(50))


def test_bad_settings_are_refused(tmp_path: Path) -> None:
    fill(tmp_path, 1)
    with pytest.raises(ValueError, match="at least 1"):
        next(iter_decoded(Catalog.from_source(tmp_path), red, num_workers=0))
