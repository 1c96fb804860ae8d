from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse.linalg import ArpackError, ArpackNoConvergence, LinearOperator

from cgmcr2.graphs import spectral
from cgmcr2.graphs.spectral import cosine_graph, largest_eigenpairs, leading_eigenvectors, spectral_clustering


def test_the_cosine_graph_equals_the_dense_one() -> None:
    Z = np.random.default_rng(0).standard_normal((40, 5))
    unit = Z / np.linalg.norm(Z, axis=1, keepdims=True)
    similarity = unit @ unit.T
    np.fill_diagonal(similarity, -np.inf)
    kept = np.where(similarity >= np.sort(similarity, axis=1)[:, -4:-3], np.maximum(similarity, 0), 0)
    np.testing.assert_allclose(cosine_graph(Z, 4).toarray(), (kept + kept.T) / 2, atol=1e-6)


@pytest.mark.parametrize("blocks", [1, 4])
def test_lanczos_equals_the_dense_solver_also_with_several_components(blocks: int) -> None:
    rng = np.random.default_rng(0)
    parts = [sp.random_array((40, 40), density=0.3, rng=rng) for _ in range(blocks)]
    A = sp.csr_array(sp.block_diag([part + part.T + sp.eye_array(40) for part in parts]))
    dense = leading_eigenvectors(A, 6, 0)
    lanczos = leading_eigenvectors(A, 6, 0, dense_rows=0)
    np.testing.assert_allclose(lanczos[0], dense[0], atol=1e-5)
    M = sp.diags_array(dense[2]) @ A @ sp.diags_array(dense[2])
    np.testing.assert_allclose(M @ lanczos[1], lanczos[1] * lanczos[0], atol=1e-4)


def test_two_rings_are_separated() -> None:
    angles = np.linspace(0, 2 * np.pi, 60, endpoint=False)
    ring = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    Z = np.concatenate([np.c_[ring, np.full(60, 0.4)], np.c_[ring, np.full(60, 3.0)]])
    labels = spectral_clustering(Z, 2, 4)
    assert len(set(labels[:60])) == len(set(labels[60:])) == 1
    assert labels[0] != labels[60]


def operator(M: np.ndarray[Any, Any], dtype: type = np.float64) -> LinearOperator:
    return LinearOperator(M.shape, matvec=lambda v: M @ v, matmat=lambda V: M @ V, dtype=dtype)


SPECTRA = {
    "exact ties": np.repeat([3.0, 2.0, 1.0], [5, 5, 190]),
    "identity": np.ones(200),
    "zero": np.zeros(200),
    "low rank": np.append(np.arange(1.0, 4.0), np.zeros(197)),
    "distinct": np.arange(200.0),
}


@pytest.mark.parametrize("failures", [0, 1, 2])
@pytest.mark.parametrize("dense_rows", [0, 4_000])
@pytest.mark.parametrize("name", SPECTRA)
def test_degenerate_spectra_are_solved_also_if_lanczos_fails(
    name: str, dense_rows: int, failures: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    spectrum = SPECTRA[name]
    Q = np.linalg.qr(np.random.default_rng(0).standard_normal((200, 200)))[0]
    M = Q * spectrum @ Q.T
    solve, errors = spectral.eigsh, [ArpackNoConvergence("no", np.empty(0), np.empty((200, 0))), ArpackError(3)]

    def failing(*arguments: Any, **options: Any) -> Any:
        if len(errors) > 2 - failures:
            raise errors.pop()
        return solve(*arguments, **options)

    monkeypatch.setattr(spectral, "eigsh", failing)
    values, vectors = largest_eigenpairs(operator(M), 8, 0, tol=1e-8, dense_rows=dense_rows)
    np.testing.assert_allclose(values, np.sort(spectrum)[-8:], atol=1e-4)
    np.testing.assert_allclose(M @ vectors, vectors * values, atol=2e-3)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(8), atol=1e-6)


@pytest.mark.parametrize(
    "A",
    [
        sp.csr_array(sp.block_diag([np.ones((20, 20))] * 30)),  # equal components: the eigenvalue 1, 30 times
        sp.csr_array(np.ones((600, 600))),  # duplicate rows: rank 1
        sp.csr_array((600, 600)),  # no edges
        sp.csr_array(sp.block_diag([np.ones((20, 20))] * 3 + [np.zeros((540, 540))])),  # isolated rows
    ],
)
def test_degenerate_graphs_have_finite_orthogonal_eigenvectors(A: sp.csr_array) -> None:
    values, vectors, _ = leading_eigenvectors(A, 10, 0)
    assert np.isfinite(vectors).all()
    np.testing.assert_allclose(values, leading_eigenvectors(A, 10, 0, dense_rows=1_000)[0], atol=1e-6)
