"""The graph, its eigenvectors and the Nyström extension against dense versions."""

from __future__ import annotations

import numpy as np
import pytest

from cgmcr2.baselines.base import unit_rows
from cgmcr2.baselines.spectral import SIGMAS, SIZES, Spectral, fit_graph, neighbours, weight
from cgmcr2.graphs.spectral import leading_eigenvectors


def rows(n: int = 60, D: int = 6, seed: int = 0) -> np.ndarray:
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
def test_the_eigenvectors_are_those_of_the_dense_normalised_graph(sigma: float | None) -> None:
    import scipy.sparse as sp

    X = rows()
    A = dense_graph(X, 5, sigma)
    deg = A.sum(1)
    want = np.sort(np.linalg.eigvalsh(A / np.sqrt(np.outer(deg, deg))))[::-1]
    values, columns = neighbours(X, 5)
    W = np.zeros((60, 60))
    np.put_along_axis(W, columns, weight(values, sigma), axis=1)
    np.testing.assert_allclose((W + W.T) / 2, A, atol=1e-5)
    got, vectors, scale = leading_eigenvectors(sp.csr_array((W + W.T) / 2), 4, 0)
    np.testing.assert_allclose(got, want[:4], atol=1e-5)
    np.testing.assert_allclose(A * np.outer(scale, scale) @ vectors, vectors * got, atol=1e-5)


@pytest.mark.parametrize("s", [10, 450])
def test_lanczos_agrees_with_the_dense_solver_also_on_a_graph_in_pieces(s: int) -> None:
    import scipy.sparse as sp

    A = dense_graph(rows(600), s, None)  # ten neighbours: each of the three kinds is a component of its own
    got, vectors, scale = leading_eigenvectors(sp.csr_array(A), 4, 0)
    np.testing.assert_allclose(A * np.outer(scale, scale) @ vectors, vectors * got, atol=1e-4)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(4), atol=1e-6)
    np.testing.assert_allclose(got, np.linalg.eigvalsh(A * np.outer(scale, scale))[::-1][:4], atol=1e-5)


def test_the_nystrom_extension_of_a_fitted_row_is_its_eigenvector_on_a_complete_graph() -> None:
    X = rows()
    _, graph, _ = fit_graph(X, neighbours(X, 59), 3, 0.5, seed=0)
    # M v = w v row by row: sum_j a_ij deg_j^(-1/2) v_j / w is v_i deg_i^(1/2), in the direction of v_i
    A = dense_graph(X, 59, 0.5)
    H = A @ graph.scaled_vectors
    direct = unit_rows(graph.scaled_vectors)  # each row up to the scale of its columns 1 / w
    values = leading_values(A)
    np.testing.assert_allclose(unit_rows(H), unit_rows(direct * values), atol=1e-6)


def leading_values(A: np.ndarray) -> np.ndarray:
    deg = A.sum(1)
    return np.sort(np.linalg.eigvalsh(A / np.sqrt(np.outer(deg, deg))))[::-1][:3]


def test_new_rows_get_the_cluster_of_their_neighbours() -> None:
    X, new = rows(), rows(seed=1)
    model = Spectral(3, s=5).fit(X)
    assert (model.predict(new) == model.labels_).all()  # row i of both is of kind i mod 3


def test_the_search_keeps_the_graph_of_the_largest_gap_and_all_labels() -> None:
    model = Spectral(3, search=True, n_init=1).fit(rows())
    assert len(model.candidates_) >= 2 * len(SIGMAS)
    assert {s for _, s in model.candidates_} <= set(SIZES)
    gap, labels = max(model.candidates_.values(), key=lambda item: item[0])
    assert gap == model.eigengap_
    assert (labels == model.labels_).all()


def test_a_kernel_that_is_not_there_is_said() -> None:
    with pytest.raises(ValueError, match="kernel must be 'cosine' or 'gaussian', but is 'rbf'"):
        Spectral(3, kernel="rbf").fit(rows())  # type: ignore[arg-type]
