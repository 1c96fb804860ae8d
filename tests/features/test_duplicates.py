"""Groups of files with equal bytes, and of images with nearly equal features."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits

from cgmcr2.features.duplicates import (
    NearDuplicateConfig,
    _reduced_rows,
    distinct_rows,
    exact_duplicates,
    find_groups,
    near_duplicates,
    read_groups,
    write_groups,
)
from cgmcr2.images import Catalog


def copies(n: int, count: int, noise: float, dim: int = 64, seed: int = 0) -> np.ndarray:
    """``count`` noisy copies of each of ``n`` random rows, shape (n * count, dim)."""
    random = np.random.default_rng(seed)
    rows = np.repeat(random.normal(size=(n, dim)), count, axis=0)
    return rows + noise * random.normal(size=rows.shape)


@pytest.mark.parametrize("kind", ["folder", "zip", "gztar"])
def test_exact_duplicates(tmp_path: Path, kind: str) -> None:
    photos = tmp_path / "photos"
    photos.mkdir()
    for name, data in {"a": b"12", "b": b"345", "c": b"12", "d": b"13", "e": b"12", "f": b"345", "g": b""}.items():
        (photos / name).write_bytes(data)
    source = photos if kind == "folder" else Path(shutil.make_archive(str(tmp_path / "x"), kind, photos))
    catalog = Catalog.from_source(source)
    groups = exact_duplicates(catalog)
    members = {catalog.ids[index]: catalog.ids[group] for index, group in enumerate(groups)}
    assert len({members[id] for id in "ace"}) == 1
    assert members["b"] == members["f"]
    assert len(set(members.values())) == 4
    assert (groups <= np.arange(len(groups))).all()


def test_exact_duplicates_of_pixels(tmp_path: Path) -> None:
    images = np.random.default_rng(0).integers(0, 256, (5, 4, 4, 3), np.uint8)
    images[3] = images[1]
    np.savez(tmp_path / "x.npz", images=images)
    assert exact_duplicates(Catalog.from_source(tmp_path / "x.npz")).tolist() == [0, 1, 2, 1, 4]


def test_only_files_of_equal_size_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for length in range(1, 5):
        (tmp_path / str(length)).write_bytes(b"x" * length)
    catalog = Catalog.from_source(tmp_path)
    monkeypatch.setattr(catalog, "source", None)
    assert exact_duplicates(catalog).tolist() == [0, 1, 2, 3]


def test_file_that_cannot_be_read_has_its_own_group(tmp_path: Path) -> None:
    for name in "abc":
        (tmp_path / name).write_text("x")
    catalog = Catalog.from_source(tmp_path)
    (tmp_path / "a").unlink()
    assert exact_duplicates(catalog).tolist() == [0, 1, 1]


@pytest.mark.parametrize("count", [2, 6, 40])
def test_noisy_copies_are_grouped(count: int) -> None:
    groups = near_duplicates(copies(60, count, 0.05))
    np.testing.assert_array_equal(groups, np.arange(60 * count) // count * count)


@pytest.mark.parametrize("components", [4, 20, 63])
def test_tiles_and_principal_components_do_not_change_the_groups(components: int) -> None:
    X = copies(50, 5, 0.15)[np.random.default_rng(1).permutation(250)]
    expected = near_duplicates(X)
    assert 50 <= len(set(expected.tolist())) < 250
    config = NearDuplicateConfig(tile=16, pairs=7, components=components)
    np.testing.assert_array_equal(near_duplicates(X, config), expected)


def test_reduced_rows_are_at_least_as_similar_as_the_rows() -> None:
    X = copies(50, 5, 0.15)
    Y = _reduced_rows(X, NearDuplicateConfig(tile=100, components=6))[0].numpy()
    Z = X / np.linalg.norm(X, axis=1, keepdims=True)
    assert Y.shape == (250, 7)
    np.testing.assert_allclose(np.linalg.norm(Y, axis=1), 1, atol=1e-5)
    assert (Y @ Y.T >= Z @ Z.T - 1e-5).all()


def test_pairs_by_brute_force() -> None:
    X = copies(40, 3, 0.15, dim=16)
    Z = X / np.linalg.norm(X, axis=1, keepdims=True)
    D = ((Z[:, None] - Z[None]) ** 2).sum(axis=2)
    reference = np.sort(D, axis=1)[:, round(0.1 * 119)]
    close = (D <= 0.2) & (0.15 * np.minimum(reference[:, None], reference) >= D)
    components = np.arange(120)
    for _ in range(120):  # the smallest row that is reachable
        components = np.where(close, components, 120).min(axis=1)
    assert len(set(components.tolist())) < 110
    np.testing.assert_array_equal(near_duplicates(X), components)


def test_sampled_reference_finds_the_same_copies() -> None:
    X = copies(300, 4, 0.05)
    groups = near_duplicates(X, NearDuplicateConfig(sample=200))
    np.testing.assert_array_equal(groups, np.arange(1200) // 4 * 4)


def test_rows_equal_up_to_rounding_are_grouped_however_many() -> None:
    X = copies(3, 300, 1e-5)
    np.testing.assert_array_equal(near_duplicates(X), np.arange(900) // 300 * 300)


def test_similar_but_different_images_are_not_grouped() -> None:
    """The cosine similarity of nearly all digits to their nearest neighbour is above 0.9."""
    X, y = load_digits(return_X_y=True)
    for rows in (slice(0, 20), slice(0, 100), slice(None)):
        groups = near_duplicates(X[rows])
        assert len(set(groups.tolist())) > 0.85 * len(groups)
        np.testing.assert_array_equal(y[rows][groups], y[rows])


@pytest.mark.parametrize("n", [0, 1, 2, 3])
def test_few_rows(n: int) -> None:
    assert near_duplicates(copies(n, 1, 0.0)).tolist() == list(range(n))


def test_zero_and_equal_rows() -> None:
    assert near_duplicates(np.ones((5, 3))).tolist() == [0] * 5
    assert len(near_duplicates(np.zeros((5, 3)))) == 5


def test_invalid_shape() -> None:
    with pytest.raises(ValueError, match=r"shape \(n_samples, n_features\), but have \(3,\)"):
        near_duplicates(np.ones(3))


def test_exact_and_near_duplicates_are_combined(tmp_path: Path) -> None:
    """Files 3 and 4 have the same bytes; the features of 1 and 7 are nearly equal; file 0 could not be embedded."""
    for number in range(30):
        (tmp_path / f"{number:02}.jpg").write_bytes(bytes([number - (number == 4)]))
    X = np.random.default_rng(0).normal(size=(30, 64))
    X[7] = X[1] + 0.01
    ids = [f"{number:02}.jpg" for number in range(29, 0, -1)]  # other order than the catalog
    groups = find_groups(X[29:0:-1], ids, Catalog.from_source(tmp_path))
    assert {ids[row]: ids[group] for row, group in enumerate(groups) if row != group} == {
        "03.jpg": "04.jpg",
        "01.jpg": "07.jpg",
    }


def test_few_groups_leave_all_rows() -> None:
    groups = np.array([0, 1, 0, 3, 1, 5])
    assert distinct_rows(groups).tolist() == [0, 1, 3, 5]
    assert distinct_rows(groups, k=5).tolist() == list(range(6))
    assert distinct_rows(groups[:5]).tolist() == list(range(5))


def test_groups_file(tmp_path: Path) -> None:
    groups = np.array([0, 1, 0, 3, 1, 0, 6])
    assert read_groups(tmp_path, "digest") is None
    write_groups(tmp_path, groups, "digest")
    np.testing.assert_array_equal(read_groups(tmp_path, "digest"), groups)
    assert read_groups(tmp_path, "digest of other rows") is None
    path = tmp_path / "duplicates.json"
    content = json.loads(path.read_text())
    assert content["groups"] == [[0, 2, 5], [1, 4]]
    for damaged in ([[0, 2, 77], [1, 4]], [[0, 2, 6], [1, 4]], [[0, 2, 5]], [[]], "x"):
        path.write_text(json.dumps({**content, "groups": damaged}))
        assert read_groups(tmp_path, "digest") is None
