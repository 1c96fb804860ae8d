"""Losses of the baselines against plain transcriptions of the published formulas.

A transcription is written with loops over NumPy scalars, from the logits on. Its gradient is a central difference, so
that neither the loss nor the gradient shares code with the package.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from cgmcr2.baselines.ensc import EnSC
from cgmcr2.baselines.nmce import nmce_loss
from cgmcr2.baselines.scan import scan_loss, self_label_loss
from cgmcr2.baselines.tac import tac_loss
from cgmcr2.graphs.self_expression import affinity, self_expression
from cgmcr2.objectives import normalized_cut

Array = np.ndarray


def draw(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape)


def softmax(row: Array) -> list[float]:
    powers = [math.exp(value) for value in row]
    return [power / sum(powers) for power in powers]


def memberships(logits: Array) -> list[list[float]]:
    return [softmax(row) for row in logits]


def column_means(P: list[list[float]]) -> list[float]:
    return [sum(row[c] for row in P) / len(P) for c in range(len(P[0]))]


def numerical_gradient(function: Callable[[Array], float], x: Array, step: float = 1e-5) -> Array:
    gradient = np.zeros_like(x)
    for index in np.ndindex(*x.shape):
        change = np.zeros_like(x)
        change[index] = step
        gradient[index] = (function(x + change) - function(x - change)) / (2 * step)
    return gradient


def check(ours: Callable[[torch.Tensor], torch.Tensor], published: Callable[[Array], float], x: Array) -> None:
    """Compare value and gradient at ``x``."""
    tensor = torch.tensor(x, requires_grad=True)
    value = ours(tensor)
    value.backward()
    assert value.item() == pytest.approx(published(x), rel=1e-6)
    assert tensor.grad is not None
    np.testing.assert_allclose(tensor.grad.numpy(), numerical_gradient(published, x), rtol=1e-4, atol=1e-6)
    assert np.abs(tensor.grad.numpy()).max() > 1e-3  # a constant function would pass otherwise


def entropy(q: list[float]) -> float:
    return -sum(value * math.log(value) for value in q)


def test_scan() -> None:
    """Equation 2 of the paper: - mean_i log <P_i, Q_i> + lambda sum_c q_c log q_c."""

    def published(x: Array) -> float:
        P, Q = memberships(x[0]), memberships(x[1])
        consistency = -sum(math.log(sum(p * q for p, q in zip(P[i], Q[i], strict=True))) for i in range(6)) / 6
        return consistency - 5 * entropy(column_means(P))

    check(lambda x: scan_loss(x[0].softmax(1), x[1].softmax(1), 5.0), published, draw(2, 6, 3))


def test_scan_self_labelling() -> None:
    """The released code: cross-entropy with weight n / n_c for cluster c, divided by the sum of the weights."""
    weak = np.array([[9.0, 0, 0], [8, 1, 0], [0, 9, 0], [0, 0.5, 9], [1, 1, 1]])  # the last row is not confident
    counts = {0: 2, 1: 1, 2: 1}

    def published(strong: Array) -> float:
        total = weights = 0.0
        for i, c in enumerate([0, 0, 1, 2]):
            weight = 4 / counts[c]
            total += weight * -math.log(softmax(strong[i])[c])
            weights += weight
        return total / weights

    P = torch.tensor(weak).softmax(1)
    check(lambda x: self_label_loss(x, P, 0.99), published, draw(5, 3))


def test_nmce() -> None:
    """(Rc - R) / 2 of the mean of two views, with R = logdet(I + d / (n eps^2) Z'Z)."""
    n, d, k, eps2 = 7, 4, 3, 0.2
    start = draw(2, n, d + k)

    def rate(Z: Array, weights: list[float]) -> float:
        M = np.eye(d)
        for z, weight in zip(Z, weights, strict=True):
            M += d * weight * np.outer(z, z) / (sum(weights) * eps2)
        return float(sum(math.log(value) for value in np.linalg.eigvalsh(M)))

    def published(x: Array) -> float:
        views = [[z / math.sqrt(z @ z) for z in view[:, :d]] for view in x]
        means = [(a + b) / 2 for a, b in zip(*views, strict=True)]
        Z = np.array([mean / math.sqrt(mean @ mean) for mean in means])
        first, second = (memberships(view[:, d:]) for view in x)
        Pi = [[(p + q) / 2 for p, q in zip(a, b, strict=True)] for a, b in zip(first, second, strict=True)]
        clusters = [[row[c] for row in Pi] for c in range(k)]
        return (sum(sum(column) / n * rate(Z, column) for column in clusters) - rate(Z, [1.0] * n)) / 2

    check(
        lambda x: nmce_loss(F.normalize(x[..., :d], dim=-1), x[..., d:].softmax(-1), math.sqrt(eps2)), published, start
    )


@pytest.mark.parametrize("penalty", ["squared", "norm"])
def test_neuncut(penalty: str) -> None:
    """tr(H'LH) and the penalty on H'DH - I; "norm" is the released code's, "squared" the paper's."""
    n, k, gamma = 6, 3, 4.0
    A = np.abs(draw(n, n, seed=1))
    A = (A + A.T) / 2
    degrees = [sum(A[i]) for i in range(n)]

    def published(x: Array) -> float:
        P = memberships(x)
        volumes = [sum(degrees[i] * P[i][c] for i in range(n)) for c in range(k)]
        H = [[P[i][c] / math.sqrt(volumes[c]) for c in range(k)] for i in range(n)]
        trace = 0.0  # sum over the edges of A_ij |H_i - H_j|^2 / 2
        for i in range(n):
            for j in range(n):
                trace += A[i, j] * sum((H[i][c] - H[j][c]) ** 2 for c in range(k)) / 2
        squares = 0.0
        for a in range(k):
            for b in range(k):
                squares += (sum(degrees[i] * H[i][a] * H[i][b] for i in range(n)) - (a == b)) ** 2
        return trace + (gamma / 2 * squares if penalty == "squared" else gamma * math.sqrt(squares) / k)

    check(
        lambda x: normalized_cut(x.softmax(1), torch.tensor(A), gamma, penalty=penalty),  # type: ignore[arg-type]
        published,
        draw(n, k),
    )


def test_tac() -> None:
    """Two distillation terms, consistency of the modalities, and the entropy of both, as in the released code."""
    n, k, temperature = 5, 3, 0.5

    def cosine(a: list[float], b: list[float]) -> float:
        dot = sum(x * y for x, y in zip(a, b, strict=True))
        return dot / math.sqrt(sum(x * x for x in a) * sum(y * y for y in b))

    def distillation(P: list[list[float]], Q: list[list[float]]) -> float:
        columns = [[row[c] for row in M] for M in (P, Q) for c in range(k)]
        total = 0.0
        for a in range(2 * k):
            positive = (a + k) % (2 * k)
            logits = [cosine(columns[a], columns[b]) / temperature for b in range(2 * k) if b != a]
            total += math.log(sum(math.exp(value) for value in logits))
            total -= cosine(columns[a], columns[positive]) / temperature
        return total / (2 * k)

    def published(x: Array) -> float:
        P, P_neighbour, Q, Q_neighbour = (memberships(part) for part in x)
        consistency = -sum(math.log(sum(p * q for p, q in zip(P[i], Q[i], strict=True))) for i in range(n)) / n
        spread = entropy(column_means(P)) + entropy(column_means(Q))
        return distillation(P, Q_neighbour) + distillation(Q, P_neighbour) + consistency - 5 * spread

    def ours(x: torch.Tensor) -> torch.Tensor:
        P, P_neighbour, Q, Q_neighbour = x.softmax(-1)
        return tac_loss((P, P_neighbour), (Q, Q_neighbour), temperature, 5.0)

    check(ours, published, draw(4, n, k))


def relative_beta(X: Array, j: int, tau: float, beta: float) -> float:
    """beta times the smallest value at which the solution of row j is not zero."""
    return beta * tau / max(abs(float(X[i] @ X[j])) for i in range(len(X)) if i != j)


def elastic_net_objective(X: Array, j: int, c: Array, tau: float, beta: float) -> float:
    """tau |c|_1 + (1 - tau)/2 |c|^2 + beta_j/2 |x_j - X'c|^2."""
    residual = X[j] - sum(c[i] * X[i] for i in range(len(X)))
    penalty = sum(tau * abs(value) + (1 - tau) / 2 * value**2 for value in c)
    return float(penalty + relative_beta(X, j, tau, beta) / 2 * residual @ residual)


def elastic_net_by_proximal_gradient(X: Array, j: int, tau: float, beta: float) -> Array:
    """Minimise the objective of row j with c_j = 0."""
    others = np.arange(len(X)) != j
    S, beta_j = X[others], relative_beta(X, j, tau, beta)
    step = 1 / (beta_j * np.linalg.norm(S @ S.T, 2) + 1 - tau)
    c = np.zeros(len(S))
    for _ in range(20_000):
        gradient = (1 - tau) * c - beta_j * S @ (X[j] - S.T @ c)
        c_new = c - step * gradient
        c_new = np.sign(c_new) * np.maximum(np.abs(c_new) - step * tau, 0)
        if np.abs(c_new - c).max() < 1e-12:
            break
        c = c_new
    coefficients = np.zeros(len(X))
    coefficients[others] = c
    return coefficients


def subspaces(n: int) -> Array:
    """Unit rows from three random subspaces of dimension 3 in 12 dimensions; row i is in subspace i mod 3."""
    bases = draw(3, 3, 12, seed=1)
    X = np.einsum("nk,nkd->nd", draw(n, 3, seed=2), bases[np.arange(n) % 3])
    return X / np.linalg.norm(X, axis=1, keepdims=True)


def test_ensc() -> None:
    """Coefficients by proximal gradient, their affinity, and the three subspaces as clusters."""
    n, tau, beta = 24, 0.9, 10.0
    X = subspaces(n)
    C = np.array([elastic_net_by_proximal_gradient(X, j, tau, beta) for j in range(n)])
    ours = self_expression(X.astype(np.float32), tau, beta, relative=True)
    for j, c in enumerate(ours.toarray()):
        best = elastic_net_objective(X, j, C[j], tau, beta)
        assert c[j] == 0
        assert best * (1 - 1e-6) <= elastic_net_objective(X, j, c, tau, beta) <= best * 1.002  # duality gap of 0.1 %
    W = np.abs(C) / np.linalg.norm(C, axis=1, keepdims=True)
    np.testing.assert_allclose(affinity(ours, 50).toarray(), (W + W.T) / 2, atol=0.06)  # as exact as the coefficients
    assert len(set(zip(EnSC(3, tau=tau, beta=beta).fit_predict(X), np.arange(n) % 3, strict=True))) == 3
