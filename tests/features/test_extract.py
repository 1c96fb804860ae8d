"""Extraction that is interrupted, repeated, shared by several machines, or given damaged files."""

from __future__ import annotations

import errno
import io
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image

from cgmcr2.features import FeatureStore, extract
from cgmcr2.features.manifest import Manifest
from cgmcr2.images import Catalog


class Colour:
    """Encoder that returns the mean colour and the sum over the batch: equal stores come from equal batches."""

    name = "colour"
    dim = 4
    image_size = 4

    def __init__(self, fingerprint: str = "colour-1") -> None:
        self.fingerprint = fingerprint
        self.batches: list[int] = []

    def preprocess(self, image: Image.Image) -> npt.NDArray[np.uint8]:
        return np.asarray(image.resize((4, 4)))

    def encode(self, batch: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
        self.batches.append(len(batch))
        means = batch.mean(axis=(1, 2))
        return np.column_stack([means, np.full(len(batch), means.sum())]).astype(np.float32)


def fill(folder: Path, numbers: range, seed: int = 0) -> None:
    folder.mkdir(exist_ok=True)
    for number in numbers:
        colour = np.random.default_rng([seed, number]).integers(0, 256, 3)
        Image.new("RGB", (6, 5), tuple(colour.tolist())).save(folder / f"{number:03}.png")
        os.utime(folder / f"{number:03}.png", ns=(seed, seed))  # equal stamps in every folder


def run(folder: Path, store: Path, encoder: Colour | None = None, **options: Any) -> FeatureStore:
    options = {"batch_size": 3, "shard_size": 8, "progress": False, **options}
    return extract(Catalog.from_source(folder), encoder or Colour(), store, **options)


def test_colour_is_an_encoder() -> None:
    from cgmcr2.encoders.base import Encoder  # imported here so that the killed processes below do not need torch

    assert isinstance(Colour(), Encoder)


def test_rows_are_in_the_order_of_the_images(tmp_path: Path) -> None:
    fill(tmp_path / "photos", range(30))
    encoder = Colour()
    store = run(tmp_path / "photos", tmp_path / "store", encoder)
    assert store.ids == [f"{number:03}.png" for number in range(30)]
    expected = [np.random.default_rng([0, number]).integers(0, 256, 3) for number in range(30)]
    np.testing.assert_allclose(store[:][:, :3], expected, atol=0.5)
    assert encoder.batches == [3, 3, 2] * 3 + [3, 3]  # no batch spans two shards
    assert store.added == 30
    assert store.errors == []
    store.verify()
    assert store.fingerprint == "colour-1"
    manifest = json.loads((tmp_path / "store" / "manifest.json").read_text())
    assert manifest["catalog"] == Catalog.from_source(tmp_path / "photos").fingerprint
    assert "4 px" in manifest["preprocessing"]


def test_second_run_computes_and_writes_nothing(tmp_path: Path) -> None:
    fill(tmp_path / "photos", range(20))
    (tmp_path / "photos" / "broken.png").write_bytes(b"no image")
    run(tmp_path / "photos", tmp_path / "store")
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "store").iterdir()}
    encoder = Colour()
    store = run(tmp_path / "photos", tmp_path / "store", encoder)
    assert encoder.batches == []
    assert store.added == 0
    assert len(store.errors) == 1
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "store").iterdir()} == before


def test_only_new_and_changed_files_are_computed(tmp_path: Path) -> None:
    photos, encoder = tmp_path / "photos", Colour()
    fill(photos, range(5, 25))
    run(photos, tmp_path / "store")
    fill(photos, range(3))  # new ones sort first
    fill(photos, range(10, 12), seed=1)  # changed
    (photos / "007.png").unlink()
    store = run(photos, tmp_path / "store", encoder)
    assert sum(encoder.batches) == store.added == 5
    fresh = run(photos, tmp_path / "fresh")
    assert store.ids == fresh.ids
    np.testing.assert_array_equal(store[:][:, :3], fresh[:][:, :3])
    assert FeatureStore.open(tmp_path / "store").ids == fresh.ids
    store.verify()
    # the row of a file that returns is still in the store
    fill(photos, range(7, 8))
    encoder = Colour()
    run(photos, tmp_path / "store", encoder)
    assert encoder.batches == []


def test_changed_file_of_equal_size_is_detected_by_its_time(tmp_path: Path) -> None:
    photos = tmp_path / "photos"
    photos.mkdir()
    Image.new("RGB", (4, 4), (1, 2, 3)).save(photos / "a.bmp")
    first = run(photos, tmp_path / "store")[:]
    Image.new("RGB", (4, 4), (3, 2, 1)).save(photos / "a.bmp")
    assert run(photos, tmp_path / "store")[:].tolist() != first.tolist()


def test_files_that_change_or_disappear_during_extraction(tmp_path: Path) -> None:
    """The next call computes the new content of a file that changed after it was listed."""
    photos = tmp_path / "photos"
    fill(photos, range(4))
    catalog = Catalog.from_source(photos)
    fill(photos, range(1, 2), seed=1)
    (photos / "002.png").unlink()
    store = extract(catalog, Colour(), tmp_path / "store", progress=False)
    assert store.errors == [("002.png", "cannot be read: No such file or directory")]
    encoder = Colour()
    store = extract(Catalog.from_source(photos), encoder, tmp_path / "store", progress=False)
    assert sum(encoder.batches) == 1
    assert store.ids == ["000.png", "001.png", "003.png"]
    assert store.errors == []
    np.testing.assert_allclose(store[1][:3], np.random.default_rng([1, 1]).integers(0, 256, 3), atol=0.5)


def fill_with_bad_files(folder: Path) -> set[str]:
    """Fill a folder with images and every kind of bad file; return the names of the bad ones."""
    fill(folder, range(6))
    good = (folder / "000.png").read_bytes()
    for name in (b"new\nline.png", b"quo\"te's.png", b"<script>alert(1)<script>.png", b"caf\xe9.png"):
        (folder / os.fsdecode(name)).write_bytes(good)
    random = np.random.default_rng(0)
    Image.fromarray(random.integers(0, 256, (64, 64, 3), np.uint8)).save(folder / "noise.jpg")
    jpeg = (folder / "noise.jpg").read_bytes()
    bad = {
        "empty.jpg": b"",
        "text.jpg": b"hello",
        "cut.jpg": jpeg[: len(jpeg) // 2],
        "cut.png": good[:40],
        "notes.txt": b"hi",
    }
    header = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + (60_000).to_bytes(4, "big") * 2 + b"\x08\x02\0\0\0"
    bad["bomb.png"] = header + bytes(4)
    for file, data in bad.items():
        (folder / file).write_bytes(data)
    os.mkfifo(folder / "pipe.jpg")
    (folder / "gone.jpg").symlink_to("nowhere")
    (folder / "loop").symlink_to(folder)
    return {*bad, "pipe.jpg", "gone.jpg", "loop"}


def test_bad_files_are_listed_as_errors(tmp_path: Path, recwarn: pytest.WarningsRecorder) -> None:
    bad = fill_with_bad_files(tmp_path / "photos")
    store = run(tmp_path / "photos", tmp_path / "store")
    assert len(store) == 6 + 4 + 1
    assert {os.fsencode(id) for id in store.ids} >= {b"new\nline.png", b"caf\xe9.png", b"quo\"te's.png"}
    assert {id for id, _ in store.errors} == bad
    assert all(reason for _, reason in store.errors)
    assert FeatureStore.open(tmp_path / "store").errors == store.errors
    assert not [warning for warning in recwarn if "PIL" in str(warning.filename)]
    store.verify()


def test_errors_are_retried_on_request_without_growing_the_store(tmp_path: Path) -> None:
    photos = tmp_path / "photos"
    fill(photos, range(10))
    whole = (photos / "004.png").read_bytes()
    (photos / "004.png").write_bytes(bytes(len(whole)))
    os.utime(photos / "004.png", ns=(0, 0))
    errors = run(photos, tmp_path / "store").errors
    assert [id for id, _ in errors] == ["004.png"]
    files = sorted(os.listdir(tmp_path / "store"))
    run(photos, tmp_path / "store", retry_errors=True)
    assert sorted(os.listdir(tmp_path / "store")) == files
    (photos / "004.png").write_bytes(whole)  # the same file, readable again
    os.utime(photos / "004.png", ns=(0, 0))
    assert run(photos, tmp_path / "store").errors == errors
    encoder = Colour()
    store = run(photos, tmp_path / "store", encoder, retry_errors=True)
    assert encoder.batches == [1]
    assert store.errors == []
    assert store.ids == [f"{number:03}.png" for number in range(10)]


def test_errors_of_some_shards_cannot_be_retried(tmp_path: Path) -> None:
    fill(tmp_path / "photos", range(1))
    with pytest.raises(ValueError, match="cannot be combined with shards"):
        run(tmp_path / "photos", tmp_path / "store", retry_errors=True, shards=range(1))


def test_no_readable_image(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "a.txt").write_text("hello")
    (tmp_path / "photos" / "b.jpg").write_text("")
    with pytest.raises(ValueError, match=r"None of the 2 files .* \(the first: 'a.txt', not an image"):
        run(tmp_path / "photos", tmp_path / "store")


def test_other_encoder_or_preprocessing_is_refused(tmp_path: Path) -> None:
    fill(tmp_path / "photos", range(3))
    run(tmp_path / "photos", tmp_path / "store")
    with pytest.raises(ValueError, match=r"colour-1.*colour-2") as caught:
        run(tmp_path / "photos", tmp_path / "store", Colour("colour-2"))
    assert "\n" not in str(caught.value)
    larger = Colour()
    larger.image_size = 8
    with pytest.raises(ValueError, match=r"for 4 px.*for 8 px"):
        run(tmp_path / "photos", tmp_path / "store", larger)
    with pytest.raises(ValueError, match=r"float32.*float16"):
        run(tmp_path / "photos", tmp_path / "store", dtype="float16")
    assert len(FeatureStore.open(tmp_path / "store")) == 3


def test_float16_overflow_is_an_error(tmp_path: Path) -> None:
    class Large(Colour):
        def encode(self, batch: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
            features = super().encode(batch)
            features[:, 3] = np.where(features[:, 0] > 128, 1e6, 1)
            return features

    photos = tmp_path / "photos"
    photos.mkdir()
    for name, red in (("a.png", 0), ("b.png", 255), ("c.png", 10)):
        Image.new("RGB", (4, 4), (red, 0, 0)).save(photos / name)
    store = run(photos, tmp_path / "store", Large(), dtype="float16")
    assert store.ids == ["a.png", "c.png"]
    assert store.errors == [("b.png", "the encoder returned a feature that is not finite in float16")]
    assert store[:].tolist() == [[0, 0, 0, 1], [10, 0, 0, 1]]


def test_batch_size_is_halved_when_memory_is_exhausted(tmp_path: Path) -> None:
    class Small(Colour):
        def encode(self, batch: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
            if len(batch) > 5:
                raise RuntimeError("CUDA out of memory. Tried to allocate 2 GiB")
            return super().encode(batch)

    fill(tmp_path / "photos", range(40))
    encoder = Small()
    store = run(tmp_path / "photos", tmp_path / "store", encoder, batch_size="auto", shard_size=40)
    assert len(store) == 40
    assert max(encoder.batches) == 4

    class Hopeless(Colour):
        def encode(self, batch: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
            raise MemoryError("not even one")

    with pytest.raises(MemoryError):
        run(tmp_path / "photos", tmp_path / "other", Hopeless())


def test_wrong_feature_shape_is_an_error(tmp_path: Path) -> None:
    class Wrong(Colour):
        def encode(self, batch: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
            return super().encode(batch)[:, :2]

    fill(tmp_path / "photos", range(4))
    with pytest.raises(ValueError, match=r"returned features of shape \(3, 2\) for 3 images, but its dim is 4"):
        run(tmp_path / "photos", tmp_path / "store", Wrong())


@pytest.mark.parametrize("options", [{"batch_size": 0}, {"batch_size": "big"}, {"engine": "spark"}, {"dtype": "int8"}])
def test_invalid_parameters(tmp_path: Path, options: dict[str, Any]) -> None:
    fill(tmp_path / "photos", range(1))
    with pytest.raises(ValueError, match="must be"):
        run(tmp_path / "photos", tmp_path / "store", **options)


def test_folder_with_other_files_is_refused(tmp_path: Path) -> None:
    fill(tmp_path / "photos", range(2))
    with pytest.raises(ValueError, match="contains other files"):
        run(tmp_path / "photos", tmp_path / "photos")
    assert sorted(os.listdir(tmp_path / "photos")) == ["000.png", "001.png"]


def test_commands_that_share_the_shards_create_the_same_store_as_one(tmp_path: Path) -> None:
    fill(tmp_path / "photos", range(45))
    (tmp_path / "photos" / "020.png").write_bytes(b"")
    alone = run(tmp_path / "photos", tmp_path / "alone")
    partial = run(tmp_path / "photos", tmp_path / "shared", shards=range(4, 100))
    assert partial.ids == alone.ids[-13:]  # shards 4 and 5
    assert partial.manifest.catalog is None
    with pytest.raises(ValueError, match="not finished"):
        FeatureStore.open(tmp_path / "shared")
    run(tmp_path / "photos", tmp_path / "shared", shards=range(1, 2))
    run(tmp_path / "photos", tmp_path / "shared", shards=range(2, 4))
    together = run(tmp_path / "photos", tmp_path / "shared", shards=range(1))
    assert together.manifest.catalog == alone.manifest.catalog
    assert_same(tmp_path / "shared", tmp_path / "alone")


def test_later_command_completes_the_store(tmp_path: Path) -> None:
    fill(tmp_path / "photos", range(20))
    run(tmp_path / "photos", tmp_path / "alone")
    run(tmp_path / "photos", tmp_path / "store", shards=range(2))
    encoder = Colour()
    run(tmp_path / "photos", tmp_path / "store", encoder)
    assert sum(encoder.batches) == 4
    assert_same(tmp_path / "store", tmp_path / "alone")


def test_overwrite_computes_a_slice_again(tmp_path: Path) -> None:
    fill(tmp_path / "photos", range(30))
    (tmp_path / "photos" / "011.png").write_bytes(b"broken")
    run(tmp_path / "photos", tmp_path / "alone")
    run(tmp_path / "photos", tmp_path / "store")
    encoder = Colour()
    run(tmp_path / "photos", tmp_path / "store", encoder, shards=range(1, 3), overwrite=True)
    assert encoder.batches == [3, 3, 1, 3, 3, 2]
    assert_same(tmp_path / "store", tmp_path / "alone")
    encoder = Colour()
    run(tmp_path / "photos", tmp_path / "store", encoder, overwrite=True)
    assert sum(encoder.batches) == 29
    assert_same(tmp_path / "store", tmp_path / "alone")


def test_shards_that_vanish_are_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As with workers whose folder is not that of the driver."""
    fill(tmp_path / "photos", range(20))
    monkeypatch.setattr("cgmcr2.features.shard_writer.write_shard", lambda *_: None)
    with pytest.raises(OSError, match=r"3 shards that workers have written, such as 0, are not in .*: give a folder"):
        run(tmp_path / "photos", tmp_path / "store")


def test_two_processes_with_the_same_command(tmp_path: Path) -> None:
    """The second process finishes while the first one encodes its first batch."""
    fill(tmp_path / "photos", range(30))

    class Overtaken(Colour):
        def encode(self, batch: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
            if not self.batches:
                run(tmp_path / "photos", tmp_path / "store")
            return super().encode(batch)

    store = run(tmp_path / "photos", tmp_path / "store", Overtaken())
    store.verify()
    assert len(list((tmp_path / "store").glob("shard-*.npy"))) == 4
    assert store.content_fingerprint == run(tmp_path / "photos", tmp_path / "alone").content_fingerprint


def test_damaged_and_deleted_shards_are_computed_again(tmp_path: Path) -> None:
    fill(tmp_path / "photos", range(30))
    before = run(tmp_path / "photos", tmp_path / "store").content_fingerprint
    (tmp_path / "store" / "shard-00001.json").write_text("{")
    (tmp_path / "store" / "shard-00002.npy").unlink()
    os.truncate(tmp_path / "store" / "shard-00003.npy", 140)
    encoder = Colour()
    store = run(tmp_path / "photos", tmp_path / "store", encoder)
    assert sum(encoder.batches) == 22
    store.verify()
    assert store.content_fingerprint == before


DAMAGES: dict[str, Callable[[Path], object]] = {
    "flipped bit": lambda path: path.write_bytes(path.read_bytes()[:-3] + bytes([path.read_bytes()[-3] ^ 4, 125, 10])),
    "zeroed block": lambda path: path.write_bytes(path.read_bytes()[:-40] + bytes(40)),
    "truncated": lambda path: os.truncate(path, 140),
    "empty": lambda path: os.truncate(path, 0),
    "deleted": lambda path: path.unlink(),
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize(
    "names",
    [["manifest.json"], ["shard-00001.npy"], ["shard-00001.json"], ["shard-00000.npy", "shard-00002.json"]],
    ids="+".join,
)
def test_repeated_command_repairs_the_store_to_the_same_bytes(tmp_path: Path, damage: str, names: list[str]) -> None:
    fill(tmp_path / "photos", range(30))
    (tmp_path / "photos" / "011.png").write_bytes(b"broken")
    run(tmp_path / "photos", tmp_path / "store")
    fill(tmp_path / "photos", range(30, 33))  # a second extraction, whose shard is shorter
    run(tmp_path / "photos", tmp_path / "store")
    before = {path.name: path.read_bytes() for path in (tmp_path / "store").iterdir()}
    for name in names:
        DAMAGES[damage](tmp_path / "store" / name)
    encoder = Colour()
    store = run(tmp_path / "photos", tmp_path / "store", encoder)
    assert sum(encoder.batches) == (0 if names == ["manifest.json"] else 7 if len(names) == 1 else 16)
    assert {path.name: path.read_bytes() for path in (tmp_path / "store").iterdir()} == before
    store.verify()


def test_damaged_shard_without_images_is_deleted(tmp_path: Path) -> None:
    fill(tmp_path / "photos", range(16))
    run(tmp_path / "photos", tmp_path / "store")
    for number in range(8):
        (tmp_path / "photos" / f"{number:03}.png").unlink()
    os.truncate(tmp_path / "store" / "shard-00000.npy", 100)
    store = run(tmp_path / "photos", tmp_path / "store")
    assert len(store) == 8
    assert sorted(os.listdir(tmp_path / "store")) == ["manifest.json", "shard-00001.json", "shard-00001.npy"]


def test_shards_of_another_encoder_are_refused_if_the_manifest_is_damaged(tmp_path: Path) -> None:
    fill(tmp_path / "photos", range(3))
    run(tmp_path / "photos", tmp_path / "store")
    (tmp_path / "store" / "manifest.json").write_text("{")
    with pytest.raises(ValueError, match=r"missing or damaged, and its shards were not made with .*colour-2"):
        run(tmp_path / "photos", tmp_path / "store", Colour("colour-2"))
    assert len(run(tmp_path / "photos", tmp_path / "store")) == 3


def test_full_disk_is_one_sentence_and_the_command_can_be_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(tmp_path / "photos", range(30))
    replace, renames = os.replace, 0

    def full(source: Any, target: Any) -> None:
        nonlocal renames
        renames += 1
        if renames > 4:
            raise OSError(errno.ENOSPC, "No space left on device")
        replace(source, target)

    with monkeypatch.context() as patch:
        patch.setattr("os.replace", full)
        with pytest.raises(OSError, match="No space left on device") as caught:
            run(tmp_path / "photos", tmp_path / "store")
    assert str(caught.value.filename).startswith(str(tmp_path / "store" / "shard-0000"))
    assert not list((tmp_path / "store").glob(".*"))
    run(tmp_path / "photos", tmp_path / "store")
    run(tmp_path / "photos", tmp_path / "whole")
    assert_same(tmp_path / "store", tmp_path / "whole")


def test_store_below_a_file_is_refused_with_its_name(tmp_path: Path) -> None:
    fill(tmp_path / "photos", range(2))
    with pytest.raises(NotADirectoryError) as caught:
        run(tmp_path / "photos", tmp_path / "photos" / "000.png" / "store")
    assert "000.png" in str(caught.value.filename)


def test_read_only_folder_is_refused_with_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(tmp_path / "photos", range(2))

    def refuse(*_: object, dir: Any, **__: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system", str(dir))

    monkeypatch.setattr("tempfile.mkstemp", refuse)
    with pytest.raises(OSError, match="Read-only file system") as caught:
        run(tmp_path / "photos", tmp_path / "store")
    assert caught.value.filename == str(tmp_path / "store")


def test_stale_temporary_files_are_deleted(tmp_path: Path) -> None:
    fill(tmp_path / "photos", range(3))
    (tmp_path / "store").mkdir()
    for name, modified in ((".shard-00000.npy.x.part.npy", 0), (".shard-00001.npy.y.part.npy", 2**33)):
        (tmp_path / "store" / name).write_bytes(b"x")
        os.utime(tmp_path / "store" / name, (modified, modified))  # the years 1970 and 2242
    run(tmp_path / "photos", tmp_path / "store")
    assert sorted(name for name in os.listdir(tmp_path / "store") if name.startswith(".")) == [
        ".shard-00001.npy.y.part.npy"
    ]


def test_readers_see_the_old_rows_until_the_new_ones_are_complete(tmp_path: Path) -> None:
    fill(tmp_path / "photos", range(10))
    old = run(tmp_path / "photos", tmp_path / "store")
    before = old[:]
    fill(tmp_path / "photos", range(10, 40))

    class Killed(Colour):
        def encode(self, batch: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
            if len(self.batches) == 5:
                raise KeyboardInterrupt
            return super().encode(batch)

    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "photos", tmp_path / "store", Killed())
    np.testing.assert_array_equal(FeatureStore.open(tmp_path / "store")[:], before)
    assert len(run(tmp_path / "photos", tmp_path / "store")) == 40


# Kills itself after a number of renames (argument 2) or encoded batches (argument 3); 0 means never.
SCRIPT = """
import os, signal, sys
sys.path[:0] = [{tests!r}, {src!r}]
from test_extract import Colour, run
from pathlib import Path
max_renames, max_batches = int(sys.argv[2]), int(sys.argv[3])
renames, replace = 0, os.replace
def counting_replace(source, target):
    global renames
    replace(source, target)
    renames += 1
    if renames == max_renames:
        os.kill(os.getpid(), signal.SIGKILL)
os.replace = counting_replace
class Killer(Colour):
    def encode(self, batch):
        features = super().encode(batch)
        if len(self.batches) == max_batches:
            os.kill(os.getpid(), signal.SIGKILL)
        return features
run(Path({photos!r}), Path(sys.argv[1]), Killer())
"""


@pytest.fixture
def killable(tmp_path: Path) -> tuple[str, Path]:
    """A script that embeds into a given store and kills itself, and the store of an uninterrupted run."""
    photos = tmp_path / "photos"
    fill(photos, range(40))
    (photos / "011.png").write_bytes(b"broken")
    whole = run(photos, tmp_path / "whole")
    test_file = Path(__file__).resolve()
    script = SCRIPT.format(tests=str(test_file.parent), src=str(test_file.parents[2] / "src"), photos=str(photos))
    assert len(whole) == 39
    return script, tmp_path / "whole"


def run_script(script: str, store: Path, *, max_renames: int = 0, max_batches: int = 0) -> int:
    command = [sys.executable, "-c", script, str(store), str(max_renames), str(max_batches)]
    return subprocess.run(command, check=False).returncode


def assert_same(store: Path, whole: Path) -> None:
    got, expected = FeatureStore.open(store), FeatureStore.open(whole)
    got.verify()
    assert got.content_fingerprint == expected.content_fingerprint
    assert got.ids == expected.ids
    assert got.errors == expected.errors
    assert Manifest.read(store) == Manifest.read(whole)
    for path in whole.iterdir():
        assert (store / path.name).read_bytes() == path.read_bytes()


def test_resume_after_a_kill_between_renames_gives_the_same_bytes(tmp_path: Path, killable: tuple[str, Path]) -> None:
    script, whole = killable
    store = tmp_path / "store"
    codes: list[int] = []
    while not codes or codes[-1] != 0:  # every run is killed after two renames, of rows or of their index
        codes.append(run_script(script, store, max_renames=2))
        assert len(codes) < 20
    assert codes.count(-signal.SIGKILL) >= 4
    assert_same(store, whole)


def test_resume_after_a_kill_between_batches_gives_the_same_bytes(tmp_path: Path, killable: tuple[str, Path]) -> None:
    script, whole = killable
    store = tmp_path / "store"
    for max_batches in (1, 5, 2):  # within the first shard, the second, and the first again
        assert run_script(script, store, max_batches=max_batches) == -signal.SIGKILL
    assert run_script(script, store) == 0
    assert_same(store, whole)


def test_second_run_on_an_archive_computes_nothing(tmp_path: Path) -> None:
    fill(tmp_path / "photos", range(20))
    archive = shutil.make_archive(str(tmp_path / "photos"), "gztar", tmp_path / "photos")
    first = Colour()
    store = run(Path(archive), tmp_path / "store", first)
    assert len(store) == sum(first.batches) == 20
    second = Colour()
    run(Path(archive), tmp_path / "store", second)
    assert second.batches == []


def test_real_photos(shared_data: Path, tmp_path: Path) -> None:
    catalog = Catalog.from_paths(sorted((shared_data / "photos").iterdir())[:50])
    store = extract(catalog, Colour(), tmp_path / "store", progress=False)
    assert store.shape == (50, 4)
    assert store.errors == []


def test_progress_starts_at_the_rows_of_the_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    fill(tmp_path / "photos", range(10))
    run(tmp_path / "photos", tmp_path / "store")
    fill(tmp_path / "photos", range(10, 14))
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    run(tmp_path / "photos", tmp_path / "store", progress=True)
    assert "Embedding" in terminal.getvalue()
    assert "| 10/14 " in terminal.getvalue()
