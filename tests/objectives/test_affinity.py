"""Affinities: symmetric, non-negative, zero diagonal, no gradient; and their values against loops."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional

from cgmcr2.objectives import Edges, cosine, cosine_topk, degrees, doubly_stochastic, gaussian

AFFINITIES: dict[str, Callable[[Tensor], Tensor | Edges]] = {
    "cosine_topk": lambda Z: cosine_topk(Z, 3),
    "gaussian": gaussian,
    "gaussian_topk": lambda Z: gaussian(Z, 3, sigma=0.5),
    "doubly_stochastic": doubly_stochastic,
    "cosine": cosine,
}


def dense(A: Tensor | Edges) -> Tensor:
    return A.dense() if isinstance(A, Edges) else A


def embedding(n: int, d: int, seed: int = 0) -> Tensor:
    return torch.randn(n, d, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def naive_topk(Z: Tensor, s: int) -> Tensor:
    """Row by row: the s most similar other rows, negative entries set to 0, then the mean with the transpose."""
    Z = functional.normalize(Z)
    n = len(Z)
    W = Z.new_zeros(n, n)
    for i in range(n):
        others = sorted((j for j in range(n) if j != i), key=lambda j: -float(Z[i] @ Z[j]))
        for j in others[:s]:
            W[i, j] = max(0.0, float(Z[i] @ Z[j]))
    return (W + W.T) / 2


@pytest.mark.parametrize("name", AFFINITIES)
@settings(max_examples=15, deadline=None)
@given(n=st.integers(1, 25), d=st.integers(1, 6), seed=st.integers(0, 2**31), double=st.booleans())
def test_affinity_is_a_graph(name: str, n: int, d: int, seed: int, double: bool) -> None:
    Z = embedding(n, d, seed).to(torch.float64 if double else torch.float32).requires_grad_()
    A = AFFINITIES[name](Z)
    deg, A = degrees(A), dense(A)
    assert A.shape == (n, n)
    assert A.dtype == Z.dtype
    assert not A.requires_grad
    assert (A >= 0).all()
    assert (A.diagonal() == 0).all()
    torch.testing.assert_close(A, A.T, rtol=0, atol=0)
    torch.testing.assert_close(deg, A.sum(1))
    laplacian = torch.diag(A.sum(1)) - A
    assert torch.linalg.eigvalsh(laplacian.double()).min() >= -1e-5


@pytest.mark.parametrize("s", [1, 4, 11, 50])
def test_topk_equals_row_by_row(s: int) -> None:
    Z = embedding(12, 5)
    torch.testing.assert_close(cosine_topk(Z, s).dense(), naive_topk(Z, s))


def test_topk_number_of_edges_and_invariance_to_scale() -> None:
    Z = embedding(20, 4)
    edges = cosine_topk(Z, 6)
    assert len(edges.weights) == 20 * 6
    torch.testing.assert_close(cosine_topk(Z * torch.rand(20, 1).add(0.1), 6).dense(), edges.dense())


def test_duplicate_rows_are_neighbours() -> None:
    A = cosine_topk(embedding(5, 8).repeat(2, 1), 1).dense()
    torch.testing.assert_close(A, torch.eye(5).double().repeat(2, 2) - torch.eye(10).double())


def test_gaussian_equals_kernel_of_distances() -> None:
    Z = embedding(9, 4)
    unit = functional.normalize(Z)
    expected = torch.exp(-torch.cdist(unit, unit).square() / (2 * 0.3**2)).fill_diagonal_(0)
    torch.testing.assert_close(dense(gaussian(Z, sigma=0.3)), expected)
    torch.testing.assert_close(dense(gaussian(Z, s=8, sigma=0.3)), expected)


@pytest.mark.parametrize("clustered", [False, True])
def test_doubly_stochastic_row_sums_and_scaling(clustered: bool) -> None:
    Z = embedding(200, 16)
    if clustered:  # ten tight clusters of very different sizes: the slowest convergence of Sinkhorn's algorithm
        Z = 0.1 * Z + 5 * torch.eye(16)[torch.arange(200).sqrt().long() % 10].double()
    A = doubly_stochastic(Z)
    torch.testing.assert_close(A.sum(1), torch.ones(200).double(), rtol=0, atol=1e-4)
    K = torch.exp(cosine_of(Z) / 0.175).fill_diagonal_(0)
    ratio = (A / K)[~torch.eye(200, dtype=torch.bool)].view(200, 199)
    assert torch.linalg.svdvals((A / K.clamp(min=1e-300)).fill_diagonal_(0) + torch.diag(diagonal(ratio)))[1] < 1e-6


def cosine_of(Z: Tensor) -> Tensor:
    unit = functional.normalize(Z)
    return unit @ unit.T


def diagonal(ratio: Tensor) -> Tensor:
    """u_i^2 from the off-diagonal entries u_i u_j of a rank-one scaling: u_i u_j * u_i u_k / (u_j u_k)."""
    n = len(ratio)
    full = torch.zeros(n, n, dtype=ratio.dtype)
    full[~torch.eye(n, dtype=torch.bool)] = ratio.flatten()
    i = torch.arange(n)
    j, k = (i + 1) % n, (i + 2) % n
    return full[i, j] * full[i, k] / full[j, k]


def test_half_precision_and_autocast() -> None:
    Z = embedding(30, 6)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        for compute in AFFINITIES.values():
            assert dense(compute(Z.half())).dtype == torch.float32


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: cosine_topk(torch.ones(3, 2), 0), "s is 0"),
        (lambda: gaussian(torch.ones(3, 2), sigma=0.0), "sigma is 0.0"),
        (lambda: doubly_stochastic(torch.ones(3, 2), temperature=-1.0), "temperature is -1.0"),
        (lambda: cosine(torch.ones(3)), r"Z has shape \(3,\)"),
    ],
)
def test_invalid_input(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peak memory is read from /proc")
def test_topk_needs_far_less_memory_than_all_pairs() -> None:
    program = """
import torch
from cgmcr2.objectives import cosine_topk

def peak():
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM:")) / 1024

Z = torch.randn(12_000, 64)
cosine_topk(Z[:100], 5)
before = peak()
cosine_topk(Z, 10)
print(peak() - before)
"""
    process = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert float(process.stdout) < 100  # MB; all pairs need 549
