"""Which images of a catalog a store contains, and the plan for the others."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cgmcr2.features.coverage import Coverage
from cgmcr2.features.shards import ShardIndex, write_shard
from cgmcr2.images import Catalog


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    (tmp_path / "photos").mkdir()
    for name in "abcdefg":
        (tmp_path / "photos" / name).write_text(name)
    return Catalog.from_source(tmp_path / "photos")


@pytest.fixture
def store(tmp_path: Path, catalog: Catalog) -> Path:
    """Shard 0 contains b, c and an old version of d; shard 1 contains a; e could not be read."""
    (tmp_path / "store").mkdir()
    sizes, stamps = dict(zip(catalog.ids, catalog.sizes.tolist(), strict=True)), catalog.stamps.tolist()
    stamp = dict(zip(catalog.ids, stamps, strict=True))
    first = ShardIndex(["b", "c", "d"], [1, 1, 1], [stamp["b"], stamp["c"], 0])
    second = ShardIndex(["a"], [1], [stamp["a"]], errors=[("e", sizes["e"], stamp["e"], "damaged")])
    write_shard(tmp_path / "store", 0, np.ones((3, 2), np.float32), first)
    write_shard(tmp_path / "store", 1, np.ones((1, 2), np.float32), second)
    return tmp_path / "store"


def test_images_without_a_row(store: Path, catalog: Catalog) -> None:
    coverage = Coverage(store, catalog)
    assert coverage.runs() == [(1, 0, 1), (0, 0, 2)]
    assert np.flatnonzero(coverage.untried).tolist() == [3, 5, 6]
    assert coverage.reasons == {4: "damaged"}


def test_plan_uses_free_shard_numbers(store: Path, catalog: Catalog) -> None:
    plan = Coverage(store, catalog).plan(2, retry_errors=True)
    assert [(part.number, part.images.tolist()) for part in plan] == [(2, [3, 5]), (3, [6]), (4, [4])]
    assert [part.reasons for part in plan] == [{}, {}, {4: "damaged"}]


def test_plan_of_some_shards(store: Path, catalog: Catalog) -> None:
    (part,) = Coverage(store, catalog).plan(2, range(3, 10))
    assert (part.number, part.images.tolist()) == (3, [6])


def test_plan_does_not_change_when_one_of_its_shards_is_written(store: Path, catalog: Catalog) -> None:
    stamps, first = catalog.stamps.tolist(), Coverage(store, catalog).plan(2)[0]
    ids = [catalog.ids[index] for index in first.images]
    index = ShardIndex(ids, [1, 1], [stamps[index] for index in first.images])
    write_shard(store, first.number, np.ones((2, 2), np.float32), index)
    (part,) = Coverage(store, catalog).plan(2)
    assert (part.number, part.images.tolist()) == (3, [6])


def test_rows_of_other_shards_are_not_read(store: Path, catalog: Catalog) -> None:
    (store / "shard-00000.npy").write_bytes(b"damaged")
    assert list(Coverage(store, catalog, range(1, 2)).damaged) == []
    assert list(Coverage(store, catalog, range(1)).damaged) == [0]


def test_damaged_shard_counts_as_missing(store: Path, catalog: Catalog) -> None:
    (store / "shard-00000.json").write_text("{")
    coverage = Coverage(store, catalog)
    assert list(coverage.damaged) == [0]
    assert np.flatnonzero(coverage.untried).tolist() == [1, 2, 3, 5, 6]


def test_damaged_rows_are_computed_again_in_the_same_shard(store: Path, catalog: Catalog) -> None:
    (store / "shard-00001.npy").write_bytes(b"damaged")
    coverage = Coverage(store, catalog)
    assert coverage.reasons == {}
    plan = [(part.number, part.images.tolist()) for part in coverage.plan(2)]
    assert plan == [(1, [0, 4]), (2, [3, 5]), (3, [6])]
