"""Feature files of every format, memory maps, and invalid files."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from cgmcr2.features import FeatureStore
from cgmcr2.features.sources import Subset, check_finite, is_features, load_feature_file, read_rows

FEATURES = np.arange(12, dtype=np.float16).reshape(6, 2)


def test_npy_stays_on_disk(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", FEATURES)
    file = load_feature_file(tmp_path / "x.npy")
    assert isinstance(file.features, np.memmap)
    assert read_rows(file.features, [3, 1]).tolist() == [[6, 7], [2, 3]]


@pytest.mark.parametrize("rows", [slice(2, 500), [3, 1, 1, -1], np.arange(999, -1, -1), np.arange(1000) % 3 == 0])
def test_memory_map_reads_like_the_array(tmp_path: Path, rows: Any) -> None:
    X = np.random.default_rng(0).standard_normal((1000, 3)).astype(np.float16)
    np.save(tmp_path / "x.npy", X)
    values = read_rows(np.load(tmp_path / "x.npy", mmap_mode="r"), rows)
    assert np.array_equal(values, X[rows].astype(np.float32))
    assert values.flags.writeable


def test_npz_with_split_classes_and_other_labels(tmp_path: Path) -> None:
    np.savez(
        tmp_path / "x.npz",
        features=FEATURES,
        labels=[0] * 6,
        coarse=[1] * 6,
        split=[0, 1, 0, 1, 0, 0],
        classes=["a", "b"],
    )
    file = load_feature_file(tmp_path / "x.npz", labels="coarse")
    assert file.labels is not None
    assert file.labels.tolist() == [1] * 6
    assert file.classes == ["a", "b"]
    assert [file.rows(part).tolist() for part in ("train", "test", "all")] == [[0, 2, 4, 5], [1, 3], list(range(6))]
    with pytest.raises(ValueError, match="part must be"):
        file.rows("validation")


def test_pt_in_the_format_of_the_released_code(tmp_path: Path) -> None:
    torch.save({"features": torch.ones(3, 2, dtype=torch.bfloat16), "ys": torch.tensor([0, 1, 2])}, tmp_path / "x.pt")
    file = load_feature_file(tmp_path / "x.pt")
    assert file.features.shape == (3, 2)
    assert file.labels is not None
    assert file.labels.tolist() == [0, 1, 2]


def test_pt_with_other_objects_is_not_loaded(tmp_path: Path) -> None:
    torch.save({"features": Path("x")}, tmp_path / "x.pt")
    with pytest.raises(ValueError, match="contains other objects than tensors"):
        load_feature_file(tmp_path / "x.pt")


def test_parquet(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    import pyarrow.parquet

    table = arrow.table({"features": [[1.0, 2.0], [3.0, 4.0]], "labels": [5, 6], "path": ["a", "b"]})
    pyarrow.parquet.write_table(table, tmp_path / "x.parquet")
    file = load_feature_file(tmp_path / "x.parquet")
    assert read_rows(file.features, slice(None)).tolist() == [[1, 2], [3, 4]]
    assert file.ids == ["a", "b"]


@pytest.mark.parametrize(
    ("name", "arrays", "message"),
    [
        ("x.npz", {"embeddings": FEATURES}, "contains embeddings, but needs an array named 'features'"),
        ("x.npz", {"features": FEATURES[0]}, r"have shape \(2,\)"),
        ("x.npz", {"features": FEATURES, "labels": [1, 2]}, "6 rows of features but 2 labels"),
        ("x.npz", {"features": FEATURES.astype(str)}, "real numbers"),
    ],
)
def test_invalid_contents(tmp_path: Path, name: str, arrays: dict[str, object], message: str) -> None:
    np.savez(tmp_path / name, **arrays)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=message):
        load_feature_file(tmp_path / name)


@pytest.mark.parametrize("name", ["x.npy", "x.npz", "x.pt", "x.parquet"])
def test_damaged_files(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"not what it says")
    with pytest.raises(ValueError, match=re.escape(name)):
        load_feature_file(tmp_path / name)


def test_missing_file_and_unknown_suffix(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="There is no file"):
        load_feature_file(tmp_path / "x.npy")
    (tmp_path / "x.txt").touch()
    with pytest.raises(ValueError, match=r"must end in \.npy"):
        load_feature_file(tmp_path / "x.txt")


def test_check_finite_lists_the_rows() -> None:
    X = np.ones((20, 3), dtype=np.float32)
    X[[3, 17], 1] = np.nan
    with pytest.raises(ValueError, match=r"2 of 20 rows .* \(rows 3, 17\)"):
        check_finite(X, block=8)
    check_finite(np.full((4, 2), np.finfo(np.float16).max, dtype=np.float16))  # a large sum is not infinity


def test_subset() -> None:
    subset = Subset(FEATURES, np.array([5, 0, 2]))
    assert subset.shape == (3, 2)
    assert subset[1:].tolist() == [[0, 1], [4, 5]]
    assert subset[np.array([0])].tolist() == [[10, 11]]


def test_is_features_distinguishes_features_from_images(tmp_path: Path) -> None:
    np.savez(tmp_path / "features.npz", features=FEATURES)
    np.savez(tmp_path / "images.npz", images=np.zeros((2, 4, 4, 3), np.uint8))
    FeatureStore.create(tmp_path / "store", FEATURES)
    (tmp_path / "photos").mkdir()
    assert [is_features(tmp_path / name) for name in ("features.npz", "store", "x.npy")] == [True] * 3
    assert [is_features(tmp_path / name) for name in ("images.npz", "photos", "x.zip")] == [False] * 3
