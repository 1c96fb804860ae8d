"""A feature store reads like the array it was created from, and detects damaged bytes."""

from __future__ import annotations

import csv
import dataclasses
import json
import os
import pickle
import resource
from dataclasses import asdict
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from cgmcr2._checksums import DamagedFileError
from cgmcr2.features import FeatureStore
from cgmcr2.features.annotations import read_annotations, write_annotations
from cgmcr2.features.manifest import Manifest
from cgmcr2.features.sealed import write_sealed
from cgmcr2.features.shards import ShardIndex, read_index, shard_numbers, write_shard

X = np.random.default_rng(0).normal(size=(23, 5)).astype(np.float32)


@pytest.fixture
def store(tmp_path: Path) -> FeatureStore:
    return FeatureStore.create(tmp_path / "store", X, shard_size=4, fingerprint="abc", encoder="test")


def test_reads_like_the_array(store: FeatureStore) -> None:
    assert store.shape == X.shape
    assert len(store) == 23
    assert store.dim == 5
    for rows in (
        slice(None),
        slice(3, 17),
        slice(20, 2, -3),
        slice(0, 0),
        [22, 0, 5, 5, -1],
        np.array([7], np.uint8),
        np.arange(23) % 3 == 0,
        np.array([], np.int64),
        [],
    ):
        values = store[rows]
        assert values.dtype == np.float32
        np.testing.assert_array_equal(
            values, X[rows if isinstance(rows, slice) else np.asarray(rows, None if len(rows) else int)]
        )
    np.testing.assert_array_equal(store[-2], X[-2])
    np.testing.assert_array_equal(np.stack([store[row] for row in range(23)]), X)


@settings(max_examples=60)
@given(rows=hnp.arrays(np.int64, st.integers(0, 60), elements=st.integers(-23, 22)))
def test_any_rows_in_any_order(tmp_path_factory: pytest.TempPathFactory, rows: np.ndarray) -> None:
    path = tmp_path_factory.getbasetemp() / "any-rows"
    store = FeatureStore.open(path) if path.exists() else FeatureStore.create(path, X, shard_size=3)
    np.testing.assert_array_equal(store[rows], X[rows])


@pytest.mark.parametrize("rows", [[23], [-24], [0.5], [[1, 2]], [True, False], "a"])
def test_invalid_rows_raise_index_error(store: FeatureStore, rows: object) -> None:
    with pytest.raises(IndexError):
        store[rows]


def test_open_and_pickle(store: FeatureStore) -> None:
    opened = FeatureStore.open(store.path)
    assert opened.ids == [str(row) for row in range(23)]
    assert opened.fingerprint == "abc"
    assert opened.content_fingerprint == store.content_fingerprint
    np.testing.assert_array_equal(opened[:], X)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(opened))[:], X)


def test_files_of_a_store(store: FeatureStore) -> None:
    assert sorted(os.listdir(store.path))[:3] == ["manifest.json", "shard-00000.json", "shard-00000.npy"]
    np.testing.assert_array_equal(np.load(store.path / "shard-00001.npy"), X[4:8])
    manifest = json.loads((store.path / "manifest.json").read_text())
    assert manifest["fingerprint"] == "abc"
    assert (manifest["dim"], manifest["dtype"], manifest["shard_size"]) == (5, "float32", 4)
    assert json.loads((store.path / "shard-00001.json").read_text())["ids"] == ["4", "5", "6", "7"]


def test_float16_is_read_as_float32(tmp_path: Path) -> None:
    store = FeatureStore.create(tmp_path / "half", X, dtype="float16")
    assert store[:].dtype == np.float32
    np.testing.assert_array_equal(store[:], X.astype(np.float16).astype(np.float32))
    assert np.load(tmp_path / "half" / "shard-00000.npy").nbytes == X.nbytes // 2
    with pytest.raises(ValueError, match="not all finite in float16"):
        FeatureStore.create(tmp_path / "over", X * 1e6, dtype="float16")


def test_content_fingerprint_depends_on_rows_ids_and_order_but_not_on_shards(tmp_path: Path) -> None:
    def fingerprint(name: str, rows: np.ndarray, ids: list[str] | None = None, shard_size: int = 4) -> str:
        return FeatureStore.create(tmp_path / name, rows, ids, shard_size=shard_size).content_fingerprint

    first = fingerprint("a", X)
    assert fingerprint("b", X, shard_size=7) == first
    changed = X.copy()
    changed[9, 3] = np.nextafter(changed[9, 3], 9)
    assert fingerprint("c", changed) != first
    assert fingerprint("d", X, [f"{row}!" for row in range(23)]) != first
    assert fingerprint("e", X[::-1], [str(row) for row in range(22, -1, -1)]) != first


def test_many_shards_with_few_file_descriptors(tmp_path: Path) -> None:
    rows = np.arange(60, dtype=np.float32)[:, None]
    FeatureStore.create(tmp_path / "many", rows, shard_size=1)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(int(name) for name in os.listdir("/proc/self/fd"))
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 50, hard))  # fewer than there are shards
    try:
        store = FeatureStore.open(tmp_path / "many")
        order = np.random.default_rng(0).permutation(60)
        np.testing.assert_array_equal(store[order], rows[order])
        assert "/many/shard-" not in Path("/proc/self/maps").read_text()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_verify_detects_any_flipped_bit(store: FeatureStore) -> None:
    store.verify()
    random = np.random.default_rng(0)
    for name in ("shard-00002.npy", "shard-00002.json"):
        whole = (store.path / name).read_bytes()
        for position in [0, 10, len(whole) - 2, *random.integers(0, len(whole) - 1, 25)]:
            broken = bytearray(whole)
            broken[position] ^= 1 << int(random.integers(0, 8))
            (store.path / name).write_bytes(broken)
            with pytest.raises(ValueError, match="is damaged"):
                FeatureStore.open(store.path).verify()
        (store.path / name).write_bytes(whole[:-3])
        with pytest.raises(ValueError, match="is damaged"):
            FeatureStore.open(store.path).verify()
        (store.path / name).write_bytes(whole)
    store.verify()


@pytest.mark.parametrize("name", ["manifest.json", "shard-00002.npy", "shard-00002.json", "labels.npz"])
def test_no_damage_is_read(store: FeatureStore, name: str) -> None:
    """Rows, ids, errors and labels are the original ones, or one sentence names the damaged file."""
    write_annotations(store, store.ids, ["a", "b"], labels=np.arange(23) % 2)
    path = store.path / name
    whole = path.read_bytes()
    random = np.random.default_rng(0)
    messages: list[str] = []
    for trial in range(120):
        path.write_bytes(mutate(whole, random, trial))
        try:
            opened = FeatureStore.open(store.path)
            rows, ids, labels = opened[:], opened.ids, read_annotations(opened)["labels"]
        except DamagedFileError as error:
            messages.append(str(error))
        else:
            np.testing.assert_array_equal(rows, X)
            assert ids == store.ids
            assert labels.tolist() == (np.arange(23) % 2).tolist()
    assert all(name in text and "\n" not in text for text in messages)
    assert len(messages) == 120 or name == "labels.npz"  # times and attributes in a zip have no meaning
    assert len(messages) > 100


def mutate(data: bytes, random: np.random.Generator, trial: int) -> bytes:
    """Flip a bit, cut the end, zero a block, or repeat a block."""
    broken = bytearray(data)
    start = int(random.integers(0, len(data) - 16))
    if trial % 4 == 0:
        broken[start] ^= 1 << int(random.integers(0, 8))
    elif trial % 4 == 1:
        del broken[start:]
    elif trial % 4 == 2:
        broken[start : start + 16] = bytes(16)
        broken[start] = 1
    else:
        broken[start:start] = data[start : start + 16]
    return bytes(broken)


def test_newer_format_is_not_called_damaged(store: FeatureStore) -> None:
    manifest = Manifest.read(store.path)
    manifest.format = 99
    manifest.write(store.path)
    with pytest.raises(
        ValueError, match=r"written by a newer version of cgmcr2 \(format 99\); update cgmcr2"
    ) as caught:
        FeatureStore.open(store.path)
    assert not isinstance(caught.value, DamagedFileError)


def test_manifest_that_refers_to_rows_beyond_a_shard(store: FeatureStore) -> None:
    manifest = Manifest.read(store.path)
    manifest.runs = [(0, 2, 4)]
    manifest.write(store.path)
    with pytest.raises(DamagedFileError, match="refers to row 5 of shard 0, which has 4 rows"):
        FeatureStore.open(store.path)[:]
    with pytest.raises(DamagedFileError, match="refers to row 5 of shard 0"):
        FeatureStore.open(store.path).verify()


@pytest.mark.parametrize("change", [{"dim": 0}, {"dtype": "object"}, {"runs": [(-1, 0, 1)]}, {"errors": [("a",)]}])
def test_manifest_with_impossible_values(store: FeatureStore, change: dict[str, Any]) -> None:
    write_sealed(store.path / "manifest.json", {**asdict(store.manifest), **change})
    with pytest.raises(DamagedFileError, match=r"manifest.json is damaged \(.* at `\$"):
        FeatureStore.open(store.path)


def test_verify_detects_a_changed_id(store: FeatureStore) -> None:
    path = store.path / "shard-00002.json"
    path.write_text(path.read_text().replace('"9"', '"7"'))
    with pytest.raises(ValueError, match=r"shard-00002.json is damaged \(its checksum differs\)"):
        store.verify()


def test_verify_reports_the_damaged_image(store: FeatureStore) -> None:
    path = store.path / "shard-00002.npy"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    with pytest.raises(ValueError, match=r"row 3 of shard-00002.npy \('11'\) does not match its checksum"):
        store.verify()


def test_verify_detects_rows_that_are_not_finite(store: FeatureStore) -> None:
    index = read_index(store.path, 1)
    rows = X[4:8].copy()
    rows[2, 2] = np.nan
    write_shard(store.path, 1, rows, index)
    with pytest.raises(ValueError, match=r"row 2 of shard-00001.npy \('6'\) is not finite"):
        store.verify()


def test_open_detects_a_missing_shard(store: FeatureStore) -> None:
    (store.path / "shard-00003.npy").unlink()
    with pytest.raises(ValueError, match=r"lacks 1 of its 6 shards, such as shard-00003.npy"):
        FeatureStore.open(store.path)


def test_open_refuses_other_folders_and_damaged_manifests(tmp_path: Path, store: FeatureStore) -> None:
    with pytest.raises(FileNotFoundError, match="is not a feature store"):
        FeatureStore.open(tmp_path / "absent")
    (tmp_path / "other").mkdir()
    with pytest.raises(ValueError, match="is not a feature store"):
        FeatureStore.open(tmp_path / "other")
    for text in ("{", "[]", '{"format": 1}'):
        (store.path / "manifest.json").write_text(text)
        with pytest.raises(ValueError, match="is damaged"):
            FeatureStore.open(store.path)


def test_unfinished_store_is_refused_unless_partial(store: FeatureStore) -> None:
    manifest = Manifest.read(store.path)
    manifest.runs = None
    manifest.write(store.path)
    with pytest.raises(ValueError, match="is not finished: run the same embed command again"):
        FeatureStore.open(store.path)
    assert len(FeatureStore.open(store.path, partial=True)) == 23


def test_create_refuses_existing_folders_and_invalid_arguments(tmp_path: Path, store: FeatureStore) -> None:
    with pytest.raises(ValueError, match="already"):
        FeatureStore.create(store.path, X)
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "a.jpg").write_bytes(b"x")
    with pytest.raises(ValueError, match="contains other files"):
        FeatureStore.create(tmp_path / "photos", X)
    with pytest.raises(ValueError, match="is a file"):
        FeatureStore.create(tmp_path / "photos" / "a.jpg", X)
    with pytest.raises(ValueError, match=r"23 rows need 23 unique ids, but there are 23 \(1 unique\)"):
        FeatureStore.create(tmp_path / "x", X, ["same"] * 23)
    with pytest.raises(ValueError, match="float32 or float16"):
        FeatureStore.create(tmp_path / "x", X, dtype="int8")
    with pytest.raises(ValueError, match=r"shape \(n_samples, n_features\)"):
        FeatureStore.create(tmp_path / "x", X[0])
    assert os.listdir(tmp_path / "photos") == ["a.jpg"]


def test_errors_csv_with_unusual_names(tmp_path: Path, store: FeatureStore) -> None:
    names = ['quo"te,.jpg', "new\nline.jpg", "caf\udce9.jpg", "<script>.jpg", "日本.jpg"]
    store.errors = [(name, "the file is empty") for name in names]
    store.write_errors_csv(tmp_path / "errors.csv")
    with open(tmp_path / "errors.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))
    assert rows[0] == ["path", "reason"]
    assert [row[0] for row in rows[1:]] == [*names[:2], "caf\\udce9.jpg", *names[3:]]


def test_unusual_ids_are_stored_unchanged(tmp_path: Path) -> None:
    ids = ["caf\udce9.jpg", "new\nline", '"', "<script>", "日本"]
    FeatureStore.create(tmp_path / "store", X[:5], ids)
    assert FeatureStore.open(tmp_path / "store").ids == ids
    assert shard_numbers(tmp_path / "store") == [0]


def test_append(store: FeatureStore) -> None:
    grown = store.append(2 * X[:6], [f"new{row}" for row in range(6)])
    assert grown.ids[22:25] == ["22", "new0", "new1"]
    for opened in (grown, FeatureStore.open(store.path)):
        np.testing.assert_array_equal(opened[:], np.concatenate([X, 2 * X[:6]]))
    grown.verify()
    with pytest.raises(ValueError, match=r"2 unique ids, but there are 2 \(1 unique\)"):
        grown.append(X[:2], ["5", "other"])
    with pytest.raises(ValueError, match=r"shape \(m, 5\)"):
        grown.append(X[:, :4])


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_compact_keeps_rows_ids_and_errors_and_deletes_unused_shards(tmp_path: Path, dtype: str) -> None:
    store = FeatureStore.create(tmp_path / "store", X[:7], shard_size=4, dtype=dtype).append(X[7:10])
    error = ("broken.jpg", 9, 8, "not an image")
    write_shard(store.path, 7, X[:0].astype(dtype), ShardIndex(errors=[error], identity=store.manifest.identity))
    runs = [(2, 1, 2), (0, 0, 2), (1, 2, 1)]  # out of order, with unused rows
    manifest = dataclasses.replace(store.manifest, runs=runs, errors=[("broken.jpg", "not an image")])
    manifest.write(store.path)
    store = FeatureStore.open(store.path)
    compacted = store.compact()
    assert shard_numbers(store.path) == [8, 9]
    assert sorted(path.name for path in store.path.iterdir())[-1] == "shard-00009.npy"
    assert read_index(store.path, 8).errors == [error]
    for opened in (compacted, FeatureStore.open(store.path)):
        opened.verify()
        np.testing.assert_array_equal(opened[:], X[[8, 9, 0, 1, 6]].astype(dtype))
        assert opened.ids == ["8", "9", "0", "1", "6"]
        assert opened.content_fingerprint == store.content_fingerprint
    assert compacted.compact() is compacted


def test_compact_rewrites_only_what_follows_the_full_shards(tmp_path: Path) -> None:
    store = FeatureStore.create(tmp_path / "store", X[:10], shard_size=4).append(X[10:11])
    assert store.compact().manifest.runs == [(0, 0, 4), (1, 0, 4), (4, 0, 3)]
    store = FeatureStore.create(tmp_path / "errors", X[:8], shard_size=4)
    error = ("broken.jpg", 9, 8, "not an image")
    write_shard(store.path, 2, X[:0], ShardIndex(errors=[error], identity=store.manifest.identity))
    store.errors.append(("broken.jpg", "not an image"))
    compacted = store.compact()
    assert compacted.manifest.runs == [(0, 0, 4), (3, 0, 4)]
    assert read_index(store.path, 3).errors == [error]
    np.testing.assert_array_equal(compacted[:], X[:8])


def test_interrupted_compaction_loses_nothing(store: FeatureStore, monkeypatch: pytest.MonkeyPatch) -> None:
    grown = store.append(X[:1])
    with monkeypatch.context() as patch:
        patch.setattr(Manifest, "write", Mock(side_effect=OSError("disk full")))
        with pytest.raises(OSError, match="disk full"):
            grown.compact()
    np.testing.assert_array_equal(FeatureStore.open(store.path)[:], np.concatenate([X, X[:1]]))
    FeatureStore.open(store.path).compact().verify()
    np.testing.assert_array_equal(FeatureStore.open(store.path)[:], np.concatenate([X, X[:1]]))


def test_compact_does_not_copy_damaged_rows(store: FeatureStore) -> None:
    grown = store.append(X[:1])
    path = store.path / "shard-00005.npy"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    with pytest.raises(DamagedFileError, match="shard-00005"):
        grown.compact()
    assert path.exists()
