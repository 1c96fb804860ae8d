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
    plan = Coverage(store, catalog).plan(2, 0, 1, retry_errors=True)
    assert [(number, indices.tolist()) for number, indices in plan] == [(2, [3, 5]), (3, [6]), (4, [4])]


def test_plans_of_several_machines_are_disjoint(store: Path, catalog: Catalog) -> None:
    coverage = Coverage(store, catalog)
    plans = [coverage.plan(2, machine, 2) for machine in range(2)]
    assert [[(number, indices.tolist()) for number, indices in plan] for plan in plans] == [
        [(2, [5])],
        [(3, [3, 6])],
    ]


def test_damaged_shard_counts_as_missing(store: Path, catalog: Catalog) -> None:
    (store / "shard-00000.json").write_text("{")
    coverage = Coverage(store, catalog)
    assert list(coverage.damaged) == [0]
    assert np.flatnonzero(coverage.untried).tolist() == [1, 2, 3, 5, 6]


def test_damaged_rows_are_computed_again_in_the_same_shard(store: Path, catalog: Catalog) -> None:
    (store / "shard-00001.npy").write_bytes(b"damaged")
    coverage = Coverage(store, catalog)
    assert coverage.reasons == {}
    plan = [(number, images.tolist()) for number, images in coverage.plan(2, 0, 1)]
    assert plan == [(1, [0, 4]), (2, [3, 5]), (3, [6])]


def test_shard_that_another_machine_repairs_is_not_planned_twice(store: Path, catalog: Catalog) -> None:
    (store / "shard-00001.npy").unlink()
    coverage = Coverage(store, catalog)
    plans = [coverage.plan(2, machine, 2) for machine in range(2)]
    images = sorted(index for plan in plans for _, part in plan for index in part.tolist())
    assert images == [0, 3, 4, 5, 6]
    numbers = [number for plan in plans for number, _ in plan]
    assert len(set(numbers)) == len(numbers)
