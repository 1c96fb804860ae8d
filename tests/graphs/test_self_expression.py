"""The active set against the whole elastic net, and that against its optimality conditions."""

from __future__ import annotations

import numpy as np
import pytest

from cgmcr2.graphs.self_expression import affinity, elastic_net, self_expression


def rows(n: int = 60, D: int = 20, seed: int = 0) -> np.ndarray:
    random = np.random.default_rng(seed)
    bases = random.standard_normal((3, 4, D))
    X = np.einsum("nk,nkd->nd", random.standard_normal((n, 4)), bases[np.arange(n) % 3])
    return (X / np.linalg.norm(X, axis=1, keepdims=True)).astype(np.float32)


@pytest.mark.parametrize("tau", [0.5, 0.9, 1.0])
def test_the_elastic_net_meets_its_optimality_conditions(tau: float) -> None:
    X, beta = rows().astype(np.float64), 20.0
    S, y = X[1:], X[0]
    c = elastic_net(S @ S.T, S @ y, 1.0, tau, beta, tol=1e-10)
    slope = beta * S @ (y - c @ S) - (1 - tau) * c  # a subgradient of tau |c|_1
    on = c != 0
    assert on.sum() > 2
    np.testing.assert_allclose(slope[on], tau * np.sign(c[on]), atol=1e-4)
    assert np.abs(slope[~on]).max() <= tau + 1e-4


@pytest.mark.parametrize("relative", [True, False])
def test_the_active_set_solves_the_whole_problem(relative: bool) -> None:
    X, tau, beta = rows(), 0.9, 30.0
    C = self_expression(X, tau, beta, relative=relative, candidates=5, max_rounds=50).toarray()
    assert (np.diag(C) == 0).all()
    for j in (0, 7, 31):
        others = np.arange(60) != j
        S, y = X[others].astype(np.float64), X[j].astype(np.float64)
        own = beta * tau / np.abs(S @ y).max() if relative else beta

        def objective(c: np.ndarray, S: np.ndarray = S, y: np.ndarray = y, own: float = own) -> float:
            return float(tau * np.abs(c).sum() + (1 - tau) / 2 * c @ c + own / 2 * ((y - c @ S) ** 2).sum())

        whole = elastic_net(S @ S.T, S @ y, 1.0, tau, own, tol=1e-10)
        assert objective(C[j, others]) <= objective(whole) * 1.01
        assert objective(C[j, others]) < objective(np.zeros(59))


def test_rows_are_written_by_rows_of_their_own_subspace() -> None:
    C = abs(self_expression(rows(90), 0.9, 50.0)).toarray()
    own = (np.arange(90)[:, None] - np.arange(90)) % 3 == 0
    assert C[own].sum() > 0.9 * C.sum()


def test_the_affinity_is_symmetric_with_the_largest_coefficients_of_unit_rows() -> None:
    C = self_expression(rows(), 0.9, 30.0)
    A = affinity(C, 2).toarray()
    W = np.abs(C.toarray())
    W[np.sort(W, axis=1)[:, [-2]] > W] = 0
    W /= np.linalg.norm(W, axis=1, keepdims=True)
    np.testing.assert_allclose(A, (W + W.T) / 2, atol=1e-12)
