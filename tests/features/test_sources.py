"""Feature files of every format, memory maps, and invalid files."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from cgmcr2.features import FeatureStore
from cgmcr2.features.sources import Subset, check_finite, is_features, load_feature_file, read_rows, space_widths

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


def write_features(path: Path) -> None:
    """Write the features, labels and ids of 40 rows in the format of the suffix."""
    X = np.random.default_rng(0).standard_normal((40, 6)).astype(np.float32)
    if path.suffix == ".npy":
        np.save(path, X)
    elif path.suffix == ".npz":
        np.savez_compressed(path, features=X, labels=np.arange(40), classes=["a", "b"])
    elif path.suffix == ".pt":
        torch.save({"features": torch.from_numpy(X), "ys": torch.arange(40)}, path)
    else:
        arrow = pytest.importorskip("pyarrow")
        import pyarrow.parquet

        table = arrow.table({"features": list(X), "labels": range(40), "id": [str(row) for row in range(40)]})
        pyarrow.parquet.write_table(table, path)


@pytest.mark.parametrize("suffix", ["npy", "npz", "pt", "parquet"])
@pytest.mark.filterwarnings("ignore")
def test_mutated_files_are_read_or_refused_in_one_sentence(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"x.{suffix}"
    write_features(path)
    data = path.read_bytes()
    random = np.random.default_rng(0)
    messages: list[str] = []
    for trial in range(500):
        broken = bytearray(data)
        position = int(random.integers(0, len(data)))
        if trial % 4 == 0:
            del broken[position:]
        elif trial % 4 == 1:
            broken[position : position + 8] = random.bytes(8)
        else:
            for place in random.integers(0, len(data) if trial % 2 else min(200, len(data)), 1 + trial % 7):
                broken[place] ^= 1 << random.integers(0, 8)
        path.write_bytes(broken)
        try:
            file = load_feature_file(path)
            assert read_rows(file.features, slice(0, 5)).size >= 0
        except ValueError as error:
            messages.append(str(error))
    assert len(messages) > 100
    assert all(str(path) in text and "\n" not in text and len(text) < 600 for text in messages)


def test_pt_view_larger_than_its_data_is_refused(tmp_path: Path) -> None:
    torch.save({"features": torch.ones(1).expand(10**9, 10**3)}, tmp_path / "x.pt")
    with pytest.raises(ValueError, match="larger than its data"):
        load_feature_file(tmp_path / "x.pt")
    torch.save(torch.eye(3).to_sparse(), tmp_path / "sparse.pt")
    with pytest.raises(ValueError, match="sparse"):
        load_feature_file(tmp_path / "sparse.pt")


def test_pt_with_compressed_members_is_refused(tmp_path: Path) -> None:
    torch.save(torch.zeros(1000, 10), tmp_path / "x.pt")
    with (
        zipfile.ZipFile(tmp_path / "x.pt") as source,
        zipfile.ZipFile(tmp_path / "bomb.pt", "w", zipfile.ZIP_DEFLATED) as target,
    ):
        for name in source.namelist():
            target.writestr(name, source.read(name))
    with pytest.raises(ValueError, match="compressed members"):
        load_feature_file(tmp_path / "bomb.pt")


def test_labels_without_a_length_are_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", features=FEATURES, labels=3)
    with pytest.raises(ValueError, match=r"an array of shape \(\) as labels"):
        load_feature_file(tmp_path / "x.npz")


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
    (tmp_path / "damaged.npz").write_bytes((tmp_path / "features.npz").read_bytes()[-40:])
    assert is_features(tmp_path / "damaged.npz")
    assert [is_features(tmp_path / name) for name in ("images.npz", "photos", "x.zip")] == [False] * 3


def test_several_spaces_are_read_side_by_side(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", features=FEATURES, labels=range(6))
    np.save(tmp_path / "b.npy", np.ones((6, 3)))
    file = load_feature_file(f"{tmp_path / 'a.npz'} + {tmp_path / 'b.npy'}")
    assert file.features.shape == (6, 5)
    assert space_widths(file.features) == space_widths(Subset(file.features, np.array([2]))) == (2, 3)
    assert file.features[2:3].tolist() == [[4, 5, 1, 1, 1]]
    assert file.labels is not None
    assert file.labels.tolist() == list(range(6))


def test_a_file_name_may_contain_the_separator(tmp_path: Path) -> None:
    path = tmp_path / "a + b.npy"
    np.save(path, FEATURES)
    assert load_feature_file(path).features.shape == (6, 2)
    assert is_features(path)


@pytest.mark.parametrize(
    ("arrays", "sentence"),
    [
        pytest.param({"features": np.ones((5, 3))}, "The feature spaces have 6 and 5 rows", id="rows"),
        pytest.param({"features": FEATURES, "labels": [0] * 6}, "have different labels", id="labels"),
    ],
)
def test_spaces_of_other_rows_are_refused(tmp_path: Path, arrays: dict[str, Any], sentence: str) -> None:
    np.savez(tmp_path / "a.npz", features=FEATURES, labels=range(6))
    np.savez(tmp_path / "b.npz", **arrays)
    with pytest.raises(ValueError, match=sentence):
        load_feature_file(f"{tmp_path / 'a.npz'} + {tmp_path / 'b.npz'}")


def test_stores_of_other_images_are_refused(tmp_path: Path) -> None:
    for name, ids in (("a", "xy"), ("b", "yx")):
        FeatureStore.create(tmp_path / name, np.ones((2, 3), np.float32), list(ids))
    with pytest.raises(ValueError, match="different images; they must hold the same images in the same order"):
        load_feature_file(f"{tmp_path / 'a'} + {tmp_path / 'b'}")
