"""Labels and other annotations of a feature store."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from cgmcr2.features import FeatureStore
from cgmcr2.features.annotations import read_annotations, write_annotations
from cgmcr2.features.sources import load_feature_file

X = np.eye(3, dtype=np.float32)


def test_annotations_follow_the_rows_of_the_store(tmp_path: Path) -> None:
    store = FeatureStore.create(tmp_path / "store", X, ["c", "a", "b"])
    write_annotations(store, ["a", "b", "c", "d"], ["cat", "dog"], labels=[0, 1, 1, 0], split=[0, 0, 1, 1])
    file = load_feature_file(tmp_path / "store")
    assert file.labels is not None
    assert file.split is not None
    assert file.labels.tolist() == [1, 0, 1]
    assert file.split.tolist() == [1, 0, 0]
    assert file.classes == ["cat", "dog"]


def test_store_without_annotations(tmp_path: Path) -> None:
    assert read_annotations(FeatureStore.create(tmp_path / "store", X)) == {}


def test_annotations_of_other_rows_are_ignored(tmp_path: Path) -> None:
    old = FeatureStore.create(tmp_path / "old", X)
    write_annotations(old, old.ids, ["cat"], labels=[0, 0, 0])
    new = FeatureStore.create(tmp_path / "new", 2 * X)
    (tmp_path / "new" / "labels.npz").write_bytes((tmp_path / "old" / "labels.npz").read_bytes())
    assert read_annotations(new) == {}
