from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from cgmcr2.graphs.spectral import cosine_graph, leading_eigenvectors, spectral_clustering


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
