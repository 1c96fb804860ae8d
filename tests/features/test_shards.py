"""Shards: the index marks a shard as complete."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

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
    np.testing.assert_array_equal(map_rows(tmp_path, 7), ROWS)


def test_rows_without_an_index_are_not_a_shard(tmp_path: Path) -> None:
    write_shard(tmp_path, 0, ROWS, index())
    write_shard(tmp_path, 12, ROWS, index())
    assert shard_numbers(tmp_path) == [0, 12]
    shard_paths(tmp_path, 0)[1].unlink()
    assert shard_numbers(tmp_path) == [12]


def test_index_without_rows_is_damaged(tmp_path: Path) -> None:
    write_shard(tmp_path, 0, ROWS, index())
    shard_paths(tmp_path, 0)[0].unlink()
    with pytest.raises(ValueError, match="is missing or incomplete"):
        read_index(tmp_path, 0)
