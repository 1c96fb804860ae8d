"""The normalized cut: brute force on small graphs, a naive implementation, gradients and invariances."""

from __future__ import annotations

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional

from cgmcr2.objectives import Edges, cosine_topk, cut_penalty, cut_terms, normalized_cut


def naive(Pi: Tensor, A: Tensor, gamma: float, penalty: str = "squared") -> Tensor:
    deg = A.sum(1)
    D, L = torch.diag(deg), torch.diag(deg) - A
    H = Pi @ torch.diag((Pi.T @ deg) ** -0.5)
    residual = H.T @ D @ H - torch.eye(Pi.shape[1], dtype=Pi.dtype)
    weighted = gamma / 2 * residual.square().sum() if penalty == "squared" else gamma * residual.norm() / Pi.shape[1]
    return torch.trace(H.T @ L @ H) + weighted


def graph(n: int, seed: int = 0, density: float = 0.5) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    A = torch.rand(n, n, dtype=torch.float64, generator=generator)
    A = (A * (torch.rand(n, n, generator=generator) < density)).triu(1)
    return A + A.T + torch.ones(n, n).double().sub(torch.eye(n)) * 1e-3


def edges_of(A: Tensor) -> Edges:
    """Each undirected edge once, with twice its weight for both directions."""
    rows, cols = A.triu().nonzero(as_tuple=True)
    return Edges(rows, cols, 2 * A[rows, cols], len(A))


def memberships(n: int, k: int, seed: int = 1) -> Tensor:
    return torch.softmax(
        2 * torch.randn(n, k, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)), dim=-1
    )


def test_hard_partitions_by_brute_force() -> None:
    A = graph(6)
    for labels in itertools.product(range(3), repeat=6):
        if len(set(labels)) < 3:
            continue
        expected = 0.0
        for cluster in range(3):
            members = [i for i in range(6) if labels[i] == cluster]
            cut = sum(float(A[i, j]) for i in members for j in range(6) if labels[j] != cluster)
            expected += cut / sum(float(A[i].sum()) for i in members)
        Pi = functional.one_hot(torch.tensor(labels), 3).double()
        for affinity in (A, edges_of(A)):
            assert normalized_cut(Pi, affinity, gamma=100.0).item() == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("penalty", ["squared", "norm"])
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize(("n", "k"), [(20, 4), (7, 2), (40, 40), (300, 5)])
def test_equals_the_naive_implementation(n: int, k: int, sparse: bool, penalty: str) -> None:
    A, Pi = graph(n, density=0.02), memberships(n, k).requires_grad_()
    actual = normalized_cut(Pi, edges_of(A) if sparse else A, 7.0, penalty=penalty)  # type: ignore[arg-type]
    expected = naive(Pi, A, 7.0, penalty)
    torch.testing.assert_close(actual, expected)
    torch.testing.assert_close(torch.autograd.grad(actual, Pi), torch.autograd.grad(expected, Pi))


@pytest.mark.parametrize("sparse", [False, True])
def test_paper_affinity(sparse: bool) -> None:
    Z, Pi = functional.normalize(torch.randn(200, 10, dtype=torch.float64)), memberships(200, 6).requires_grad_()
    edges = cosine_topk(Z, 5)
    actual = normalized_cut(Pi, edges if sparse else edges.dense(), 3.0)
    expected = naive(Pi, edges.dense(), 3.0)
    torch.testing.assert_close(actual, expected)
    torch.testing.assert_close(torch.autograd.grad(actual, Pi), torch.autograd.grad(expected, Pi))


@pytest.mark.parametrize("penalty", ["squared", "norm"])
@pytest.mark.parametrize("sparse", [False, True])
def test_gradcheck(sparse: bool, penalty: str) -> None:
    A, Pi = graph(9), torch.stack([memberships(9, 3), memberships(9, 3, seed=5)]).requires_grad_()
    affinity = edges_of(A) if sparse else A
    assert torch.autograd.gradcheck(lambda Pi: normalized_cut(Pi, affinity, 3.0, penalty=penalty), Pi)  # type: ignore[arg-type]


def test_gradcheck_of_each_term() -> None:
    A, Pi = graph(9), memberships(9, 3).requires_grad_()
    for i in range(2):
        assert torch.autograd.gradcheck(lambda Pi, i=i: cut_terms(Pi, A)[i], Pi)


def test_heads_equal_separate_calls() -> None:
    A, Pi = graph(15), torch.stack([memberships(15, 4, seed) for seed in range(3)])
    for affinity in (A, edges_of(A)):
        together = normalized_cut(Pi, affinity, 5.0)
        torch.testing.assert_close(together, torch.stack([normalized_cut(head, affinity, 5.0) for head in Pi]))


@settings(max_examples=25, deadline=None)
@given(st.integers(2, 20), st.integers(1, 5), st.integers(0, 2**31))
def test_invariant_to_order_of_rows_and_clusters(n: int, k: int, seed: int) -> None:
    A, Pi = graph(n, seed), memberships(n, k, seed)
    generator = torch.Generator().manual_seed(seed)
    rows, clusters = torch.randperm(n, generator=generator), torch.randperm(k, generator=generator)
    permuted = normalized_cut(Pi[rows][:, clusters], A[rows][:, rows], 4.0)
    torch.testing.assert_close(permuted, normalized_cut(Pi, A, 4.0))
    trace, residual = cut_terms(Pi, A)
    assert -1e-9 <= trace <= k
    assert residual >= 0


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("tiny", [0.0, 1e-38, 1e-20, 1e-8])
@pytest.mark.parametrize("penalty", ["squared", "norm"])
def test_empty_cluster_costs_half_gamma_without_nan(penalty: str, tiny: float, dtype: torch.dtype) -> None:
    A, Pi = graph(12).to(dtype), memberships(12, 3).to(dtype)
    with_empty = torch.cat([Pi, torch.full((12, 1), tiny, dtype=dtype)], -1).requires_grad_()
    without, terms = cut_terms(Pi, A), cut_terms(with_empty, A)
    torch.testing.assert_close(terms.trace, without.trace, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(terms.residual, without.residual + 1, rtol=1e-5, atol=1e-5)
    (gradient,) = torch.autograd.grad(normalized_cut(with_empty, A, 10.0, penalty=penalty), with_empty)  # type: ignore[arg-type]
    assert gradient.isfinite().all()
    if tiny == 0:
        assert (gradient[:, 3] == 0).all()


def test_merging_two_clusters_lowers_the_cut_by_at_most_two() -> None:
    # the extreme case is a bipartite graph: two clusters cut all edges, one cluster cuts none
    A = torch.zeros(4, 4)
    A[:2, 2:] = A[2:, :2] = 1.0
    separate = torch.tensor([[1.0, 0], [1, 0], [0, 1], [0, 1]])
    merged = torch.tensor([[1.0, 0]]).repeat(4, 1)
    assert cut_terms(separate, A).trace - cut_terms(merged, A).trace == 2
    assert normalized_cut(separate, A, gamma=4.5) < normalized_cut(merged, A, gamma=4.5)


NO_EDGES = Edges(torch.empty(0, dtype=torch.int64), torch.empty(0, dtype=torch.int64), torch.empty(0), 5)


@pytest.mark.parametrize("A", [torch.zeros(5, 5).double(), NO_EDGES])
def test_graph_without_edges(A: Tensor | Edges) -> None:
    Pi = memberships(5, 2).requires_grad_()
    trace, residual = cut_terms(Pi, A)
    assert (trace.item(), residual.item()) == (0, 2)
    (gradient,) = torch.autograd.grad(trace + residual, Pi)
    assert (gradient == 0).all()


def test_second_derivative_raises() -> None:
    Pi = memberships(5, 2).requires_grad_()
    with pytest.raises(RuntimeError, match="no second derivative"):
        torch.autograd.grad(normalized_cut(Pi, graph(5), 3.0), Pi, create_graph=True)


def test_norm_of_an_exact_partition_has_gradient_zero() -> None:
    residual = torch.zeros((), requires_grad=True)
    (gradient,) = torch.autograd.grad(cut_penalty(residual, 5.0, 2, "norm"), residual)
    assert gradient == 0


def test_half_precision_and_autocast() -> None:
    A, Pi = graph(30).float(), memberships(30, 4).float().requires_grad_()
    exact = normalized_cut(Pi, A, 5.0)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = normalized_cut(Pi, A, 5.0)
        torch.testing.assert_close(inside, exact, rtol=0, atol=0)
        torch.testing.assert_close(torch.autograd.grad(inside, Pi), torch.autograd.grad(exact, Pi), rtol=0, atol=0)
    low = normalized_cut(Pi.bfloat16(), A, 5.0)
    assert low.dtype == torch.float32
    torch.testing.assert_close(low, normalized_cut(Pi.bfloat16().float(), A, 5.0))


def test_invalid_input() -> None:
    with pytest.raises(ValueError, match=r"A has shape \(3, 4\)"):
        cut_terms(torch.ones(4, 2), torch.ones(3, 4))
    with pytest.raises(ValueError, match=r"Pi has shape \(3, 2\) for n=4 rows"):
        normalized_cut(torch.ones(3, 2), torch.ones(4, 4), 1.0)
    with pytest.raises(ValueError, match=r"pass A.detach\(\)"):
        normalized_cut(torch.ones(4, 2), torch.ones(4, 4, requires_grad=True), 1.0)
    with pytest.raises(ValueError, match="penalty is 'cubed'"):
        normalized_cut(torch.ones(4, 2), torch.ones(4, 4), 1.0, penalty="cubed")  # type: ignore[arg-type]
