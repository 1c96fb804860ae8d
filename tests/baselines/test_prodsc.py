"""PRO-DSC: the terms of the loss against loops, the block-diagonal penalty, and the Nyström extension."""

from __future__ import annotations

import math

import numpy as np
import torch
import torch.nn.functional as F

from cgmcr2._arrays import unit_rows
from cgmcr2.baselines.prodsc import (
    PRODSC,
    block_diagonal_penalty,
    prodsc_loss,
    self_expression,
    spectral_extension,
)
from cgmcr2.evaluation.metrics import clustering_accuracy


def unit(n: int, d: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return F.normalize(torch.randn(n, d, generator=generator, dtype=torch.float64), dim=1)


def test_coefficients_equal_loops() -> None:
    Y, eta = unit(5, 3), 0.2
    C, A = self_expression(Y, eta)
    G = (Y @ Y.T).tolist()
    weights = [[math.exp(abs(G[i][j]) / eta) for j in range(5)] for i in range(5)]
    rows = [[weights[i][j] / sum(weights[i]) if i != j else 0.0 for j in range(5)] for i in range(5)]
    for i in range(5):
        for j in range(5):
            expected = (rows[i][j] + rows[j][i]) / 2
            assert math.isclose(float(A[i, j]), expected, rel_tol=1e-9, abs_tol=1e-12)
            assert math.isclose(float(C[i, j]), math.copysign(expected, G[i][j]), rel_tol=1e-9, abs_tol=1e-12)


def test_many_sinkhorn_steps_give_a_doubly_stochastic_matrix() -> None:
    Y = unit(6, 3)
    full = torch.exp((Y @ Y.T).abs() / 0.5)
    for _ in range(200):
        full = full / full.sum(1, keepdim=True)
        full = full / full.sum(0, keepdim=True)
    _, A = self_expression(Y, 0.5, sinkhorn_steps=200)
    torch.testing.assert_close(A, (full - full.diagonal().diag()), atol=1e-6, rtol=1e-6)


def test_penalty_equals_the_sum_of_eigenvalues_and_its_gradient() -> None:
    A = torch.rand(6, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    A = ((A + A.T) / 2).fill_diagonal_(0).requires_grad_()

    def by_eigenvalues(A: torch.Tensor) -> torch.Tensor:
        L = A.sum(1).diag() - A
        return torch.linalg.eigvalsh((L + L.T) / 2)[:3].sum()

    (gradient,) = torch.autograd.grad(block_diagonal_penalty(A, 3), A)
    (expected,) = torch.autograd.grad(by_eigenvalues(A), A)
    assert math.isclose(float(block_diagonal_penalty(A.detach(), 3)), float(by_eigenvalues(A.detach())), rel_tol=1e-9)
    torch.testing.assert_close(gradient + gradient.T, expected + expected.T)  # for symmetric perturbations of A


def test_penalty_is_zero_for_as_many_blocks_as_clusters() -> None:
    A = torch.block_diag(*[torch.ones(3, 3).fill_diagonal_(0) for _ in range(3)])
    assert abs(float(block_diagonal_penalty(A, 3))) < 1e-5
    assert float(block_diagonal_penalty(A, 4)) > 1


def test_loss_is_the_sum_of_its_terms() -> None:
    Z, Y = unit(8, 4, 1), unit(8, 4, 2)
    C, A = self_expression(Y, 0.3)
    rate = 0.5 * torch.logdet(torch.eye(4) + 4 / (8 * 0.1) * Z.T @ Z)
    expression = sum(float((Z[j] - sum(C[i, j] * Z[i] for i in range(8))).square().sum()) for j in range(8)) / 2
    eigenvalues = torch.linalg.eigvalsh(A.sum(1).diag() - A)[:2].sum()
    expected = -float(rate) + 7 * expression / 8 + 5 * float(eigenvalues) / 8
    loss = float(prodsc_loss(Z, Y, 2, gamma=7.0, beta=5.0, eta=0.3, sinkhorn_steps=1))
    assert math.isclose(loss, expected, rel_tol=1e-6)


def test_extension_reproduces_the_eigenvectors() -> None:
    Y = unit(40, 6).numpy().astype(np.float32)
    A = np.abs(Y @ Y.T).astype(np.float64)
    scale = 1 / np.sqrt(A.sum(1))
    vectors = unit_rows(np.linalg.eigh(scale[:, None] * A * scale)[1][:, :-4:-1])  # in descending order
    np.testing.assert_allclose(np.abs(unit_rows(A @ spectral_extension(Y, 3))), np.abs(vectors), atol=1e-4)


def test_fewer_landmarks_than_rows() -> None:
    y = np.random.default_rng(0).permutation(np.arange(200) % 4)
    X = np.eye(16)[y] + 0.1 * np.random.default_rng(1).standard_normal((200, 16))
    model = PRODSC(4, hidden_dim=64, embedding_dim=16, warmup_steps=24, max_steps=36, landmarks=60).fit(X)
    assert model.landmarks_.shape == (60, 16)
    assert clustering_accuracy(y, model.labels_) > 0.95
