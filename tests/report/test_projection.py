"""The map keeps groups together, is reproducible, and works with landmarks and blocks."""

from __future__ import annotations

import sys
import types
from typing import Any

import numpy as np
import pytest

from cgmcr2.report import projection
from cgmcr2.report.projection import project


def groups(n: int, k: int = 4, d: int = 16, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, k, n)
    Z = np.eye(d)[labels] + 0.1 * rng.standard_normal((n, d))
    return (Z / np.linalg.norm(Z, axis=1, keepdims=True)).astype(np.float32), labels


def neighbour_accuracy(positions: np.ndarray, labels: np.ndarray) -> float:
    """Share of points whose nearest neighbour is in the same group."""
    distance = ((positions[:, None] - positions[None]) ** 2).sum(-1)
    np.fill_diagonal(distance, np.inf)
    return float((labels[distance.argmin(1)] == labels).mean())


def test_tsne_keeps_groups_together_and_repeats() -> None:
    Z, labels = groups(80)
    positions = project(Z)
    assert positions.shape == (80, 2)
    assert positions.min() >= -1e-6
    assert positions.max() <= 1 + 1e-6
    assert neighbour_accuracy(positions, labels) > 0.97
    np.testing.assert_array_equal(positions, project(Z))


def test_rows_are_placed_around_landmarks_of_their_group() -> None:
    Z, labels = groups(300)
    positions = project(Z, max_landmarks=60, max_pca_rows=100)
    assert positions.shape == (300, 2)
    assert neighbour_accuracy(positions, labels) > 0.97
    np.testing.assert_array_equal(positions, project(Z, max_landmarks=60, max_pca_rows=100))


def test_points_do_not_overlap_and_larger_groups_take_more_area() -> None:
    from scipy.spatial import cKDTree

    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1], [120, 40])
    Z = np.eye(8)[labels] + 0.02 * rng.standard_normal((160, 8))  # two dense groups
    positions = project(Z)
    nearest = cKDTree(positions).query(positions, 2)[0][:, 1]
    assert np.median(nearest) > 0.45 / np.sqrt(160)
    area = [np.prod(positions[labels == c].std(0)) for c in (0, 1)]
    assert 1.5 < area[0] / area[1] < 6


@pytest.mark.parametrize("block_rows", [8, 1000])
def test_nearest_landmark_equals_brute_force(block_rows: int) -> None:
    rng = np.random.default_rng(0)
    points, landmarks = rng.standard_normal((50, 3)).astype("f4"), rng.standard_normal((7, 3)).astype("f4")
    nearest, distance = projection._nearest_landmark(points, landmarks, block_rows)
    exact = ((points[:, None] - landmarks[None]) ** 2).sum(-1)
    np.testing.assert_array_equal(nearest, exact.argmin(1))
    np.testing.assert_allclose(distance, exact.min(1), atol=1e-5)


def test_principal_components_do_not_depend_on_the_block_size() -> None:
    X = np.random.default_rng(0).standard_normal((50, 6))
    blocks = projection._principal_components(X, 3, max_rows=50, seed=0, block_rows=8)
    np.testing.assert_allclose(blocks, projection._principal_components(X, 3, max_rows=50, seed=0), atol=1e-6)


def test_pca_shows_the_directions_of_largest_variance() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 5)) * [1, 9, 1, 5, 1]
    positions = project(X, "pca")
    correlation = np.corrcoef(positions.T, X.T)[:2, 2:]
    assert abs(correlation[0, 1]) > 0.99
    assert abs(correlation[1, 3]) > 0.99
    assert np.ptp(positions[:, 0]) == pytest.approx(1, abs=1e-5)
    assert np.ptp(positions[:, 1]) < 0.9  # the aspect ratio is kept


@pytest.mark.parametrize(("n", "d"), [(0, 3), (1, 3), (2, 3), (9, 1), (10, 1), (11, 2)])
def test_tiny_embeddings(n: int, d: int) -> None:
    positions = project(np.arange(n * d, dtype=np.float64).reshape(n, d), seed=2**32 - 1)
    assert positions.shape == (n, 2)
    assert np.isfinite(positions).all()


@pytest.mark.parametrize("n", [5, 30])
def test_identical_rows_are_one_point(n: int) -> None:
    positions = project(np.ones((n, 4)))
    np.testing.assert_allclose(positions, 0.5)


def test_invalid_arguments() -> None:
    with pytest.raises(ValueError, match="'mds'; choose from auto, pca"):
        project(np.ones((5, 4)), "mds")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"needs an embedding of shape \(n, d\)"):
        project(np.ones(5))


def test_missing_umap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "umap", None)
    with pytest.raises(ImportError, match=r"cgmcr2\[viz\]"):
        project(groups(30)[0], "umap")


def test_umap_is_seeded(monkeypatch: pytest.MonkeyPatch) -> None:
    arguments: dict[str, Any] = {}

    class FakeUMAP:
        def __init__(self, **options: Any) -> None:
            arguments.update(options)

        def fit_transform(self, points: np.ndarray) -> np.ndarray:
            return points[:, :2]

    monkeypatch.setitem(sys.modules, "umap", types.SimpleNamespace(UMAP=FakeUMAP))  # type: ignore[arg-type]
    assert project(groups(12)[0], "umap", seed=3).shape == (12, 2)
    assert arguments == {"n_neighbors": 11, "random_state": 3, "n_jobs": 1}
