"""Spectral clustering: graph and Nyström extension against dense matrices, search, and prediction."""

from __future__ import annotations

import numpy as np
import pytest

from cgmcr2._arrays import unit_rows
from cgmcr2.baselines.spectral import NEIGHBOURS, SIGMAS, Spectral, edge_weights, fit_graph, neighbours


def cone_rows(n: int = 60, D: int = 6, seed: int = 0) -> np.ndarray:
    """Unit rows around three orthogonal directions; row i belongs to direction i mod 3."""
    random = np.random.default_rng(seed)
    return unit_rows(np.eye(D)[np.arange(n) % 3] + 0.3 * random.random((n, D))).astype(np.float32)


def dense_graph(X: np.ndarray, s: int, sigma: float | None) -> np.ndarray:
    cosines = (X @ X.T).astype(np.float64)
    np.fill_diagonal(cosines, -np.inf)
    W = np.zeros_like(cosines)
    for i, row in enumerate(cosines):
        for j in np.argsort(-row)[:s]:
            distance = ((X[i] - X[j]) ** 2).sum()
            W[i, j] = max(row[j], 0) if sigma is None else np.exp(-distance / (2 * sigma**2))
    return (W + W.T) / 2


@pytest.mark.parametrize("sigma", [None, 0.3])
def test_graph_equals_the_dense_graph(sigma: float | None) -> None:
    X = cone_rows()
    cosines, indices = neighbours(X, 5)
    assert (np.diff(cosines, axis=1) <= 0).all()
    W = np.zeros((60, 60))
    np.put_along_axis(W, indices, edge_weights(cosines, sigma), axis=1)
    np.testing.assert_allclose((W + W.T) / 2, dense_graph(X, 5, sigma), atol=1e-5)


def test_nystrom_extension_reproduces_the_eigenvectors_on_a_complete_graph() -> None:
    X = cone_rows()
    _, graph, gap = fit_graph(X, neighbours(X, 59), 3, 0.5, seed=0)
    # M v = w v row by row: sum_j a_ij deg_j^(-1/2) v_j / w = deg_i^(1/2) v_i, which is parallel to v_i
    A = dense_graph(X, 59, 0.5)
    deg = A.sum(1)
    values = np.linalg.eigvalsh(A / np.sqrt(np.outer(deg, deg)))[::-1]
    eigenvectors = unit_rows(graph.scaled_vectors * values[:3])
    np.testing.assert_allclose(unit_rows(A @ graph.scaled_vectors), eigenvectors, atol=1e-6)
    assert gap == pytest.approx((values[2] - values[3]) / (1 - values[3]), rel=1e-4)


def test_new_rows_get_the_cluster_of_their_neighbours() -> None:
    X, new = cone_rows(), cone_rows(seed=1)
    model = Spectral(3, s=5).fit(X)
    assert (model.predict(new) == model.labels_).all()


def test_search_keeps_the_graph_of_largest_gap_and_all_labels() -> None:
    model = Spectral(3, search=True, n_init=1).fit(cone_rows())
    assert len(model.candidates_) >= 2 * len(SIGMAS)
    assert {s for _, s in model.candidates_} <= set(NEIGHBOURS)
    gap, labels = max(model.candidates_.values(), key=lambda item: item[0])
    assert gap == model.eigengap_
    assert (labels == model.labels_).all()


def test_invalid_kernel() -> None:
    with pytest.raises(ValueError, match="kernel must be one of 'cosine', 'gaussian', but is 'rbf'"):
        Spectral(3, kernel="rbf").fit(cone_rows())  # type: ignore[arg-type]
