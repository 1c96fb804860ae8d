"""Shards: the index marks a shard as complete."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from cgmcr2._checksums import DamagedFileError
from cgmcr2.features.shards import ShardIndex, map_rows, read_index, shard_numbers, shard_paths, write_shard

ROWS = np.arange(6, dtype=np.float32).reshape(3, 2)


def index() -> ShardIndex:
    return ShardIndex(["a", "b", "c"], [1, 2, 3], [4, 5, 6], errors=[("d", 7, 8, "the file is empty")])


def test_round_trip(tmp_path: Path) -> None:
    write_shard(tmp_path, 7, ROWS, index())
    result = read_index(tmp_path, 7)
    assert (result.ids, result.sizes, result.stamps, result.errors) == (
        ["a", "b", "c"],
        [1, 2, 3],
        [4, 5, 6],
        [("d", 7, 8, "the file is empty")],
    )
    assert len(set(result.checksums)) == 3
    np.testing.assert_array_equal(map_rows(tmp_path, 7, 2, "float32"), ROWS)


def test_rows_without_an_index_are_not_a_shard(tmp_path: Path) -> None:
    write_shard(tmp_path, 0, ROWS, index())
    write_shard(tmp_path, 12, ROWS, index())
    assert shard_numbers(tmp_path) == [0, 12]
    shard_paths(tmp_path, 0)[1].unlink()
    assert shard_numbers(tmp_path) == [12]


def test_index_without_rows_is_damaged(tmp_path: Path) -> None:
    write_shard(tmp_path, 0, ROWS, index())
    shard_paths(tmp_path, 0)[0].unlink()
    with pytest.raises(DamagedFileError, match=r"shard-00000.npy is missing; run the same embed command again"):
        map_rows(tmp_path, 0, 2, "float32")


def test_rows_are_verified_again_after_they_have_changed(tmp_path: Path) -> None:
    write_shard(tmp_path, 0, ROWS, index())
    map_rows(tmp_path, 0, 2, "float32")
    path = shard_paths(tmp_path, 0)[0]
    status = path.stat()
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))  # the time of the change stays
    with pytest.raises(DamagedFileError, match=r"shard-00000.npy is damaged \(its checksum differs\)"):
        map_rows(tmp_path, 0, 2, "float32")


@pytest.mark.parametrize(("dim", "dtype"), [(3, "float32"), (2, "float16")])
def test_rows_of_another_shape_or_type_are_refused(tmp_path: Path, dim: int, dtype: str) -> None:
    write_shard(tmp_path, 0, ROWS, index())
    with pytest.raises(DamagedFileError, match=r"float32 of shape \(3, 2\), not \w+ with \d columns"):
        map_rows(tmp_path, 0, dim, dtype)


def test_lists_of_different_lengths_are_refused(tmp_path: Path) -> None:
    write_shard(tmp_path, 0, ROWS, ShardIndex(["a", "b", "c"], [1, 2], [4, 5, 6]))
    with pytest.raises(DamagedFileError, match="different lengths"):
        read_index(tmp_path, 0)
