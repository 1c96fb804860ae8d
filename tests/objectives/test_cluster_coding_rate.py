"""The cluster-wise coding rate against values by hand, the dense formula, and what must not change it."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional

from cgmcr2.objectives import cluster_coding_rate, coding_rate


def naive(Z: Tensor, Pi: Tensor, eps: float) -> Tensor:
    """The formula cluster by cluster; differentiable."""
    n, d = Z.shape
    total = Z.new_zeros(())
    for weights in Pi.T:
        size = weights.sum()
        if size > 0:
            M = torch.eye(d, dtype=Z.dtype) + d / (size * eps**2) * (Z.T * weights) @ Z
            total = total + size / n * 2 * torch.linalg.cholesky(M).diagonal().log().sum()
    return total


def embedding(n: int, d: int, seed: int = 0) -> Tensor:
    return functional.normalize(torch.randn(n, d, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)))


def memberships(n: int, k: int, sharpness: float = 1.0, seed: int = 1) -> Tensor:
    logits = torch.randn(n, k, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    return torch.softmax(sharpness * logits, -1)


def one_hot(n: int, k: int, seed: int = 1) -> Tensor:
    labels = torch.randint(k, (n,), generator=torch.Generator().manual_seed(seed))
    return functional.one_hot(labels, k).double()


def value_and_gradients(function, Z: Tensor, Pi: Tensor, eps: float) -> tuple[Tensor, Tensor, Tensor]:  # type: ignore[no-untyped-def]
    Z, Pi = Z.detach().requires_grad_(), Pi.detach().requires_grad_()
    value = function(Z, Pi, eps)
    value.sum().backward()
    assert Z.grad is not None
    assert Pi.grad is not None
    return value.detach(), Z.grad, Pi.grad


def test_values_by_hand() -> None:
    log = lambda x: torch.tensor(x).log().item()  # noqa: E731
    Z = torch.eye(2).repeat(3, 1)  # rows e1, e2, e1, e2, ...
    # each cluster one direction: one eigenvalue 1 + d / eps^2 = 9
    assert cluster_coding_rate(Z, torch.eye(2).repeat(3, 1), 0.5).item() == pytest.approx(log(9.0))
    # all in one cluster of two: the rate of the whole, two eigenvalues 1 + 1/2 * 8
    assert cluster_coding_rate(Z, torch.tensor([[1.0, 0.0]]).repeat(6, 1), 0.5).item() == pytest.approx(2 * log(5.0))


@pytest.mark.parametrize(("n", "d", "k"), [(60, 8, 5), (10, 24, 3), (30, 4, 1), (1, 3, 2), (40, 3, 40)])
@pytest.mark.parametrize("kind", ["soft", "sharp", "hard"])
def test_equals_the_naive_formula(n: int, d: int, k: int, kind: str) -> None:
    Z = embedding(n, d)
    Pi = {"soft": memberships(n, k), "sharp": memberships(n, k, 20.0), "hard": one_hot(n, k)}[kind]
    got, want = value_and_gradients(cluster_coding_rate, Z, Pi, 0.5), value_and_gradients(naive, Z, Pi, 0.5)
    torch.testing.assert_close(got[0], want[0], rtol=2e-6, atol=0)
    torch.testing.assert_close(got[1], want[1], rtol=1e-5, atol=1e-5 * want[1].abs().max().item())
    used = Pi.sum(0) > 0  # the gradient of an empty cluster is zero by convention
    torch.testing.assert_close(got[2][:, used], want[2][:, used], rtol=1e-5, atol=1e-5 * want[2].abs().max().item())


@pytest.mark.parametrize(("n", "d", "k"), [(9, 4, 3), (4, 6, 2)])
def test_gradcheck(n: int, d: int, k: int) -> None:
    Z, Pi = embedding(n, d).requires_grad_(), memberships(n, k).requires_grad_()
    assert torch.autograd.gradcheck(lambda Z, Pi: cluster_coding_rate(Z, Pi, 0.5, tolerance=1e-12), (Z, Pi))


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 30), st.integers(1, 10), st.integers(1, 6), st.integers(0, 2**31))
def test_rotation_and_orders_do_not_matter(n: int, d: int, k: int, seed: int) -> None:
    Z, Pi = embedding(n, d, seed), memberships(n, k, 3.0, seed + 1)
    generator = torch.Generator().manual_seed(seed)
    rows, clusters = torch.randperm(n, generator=generator), torch.randperm(k, generator=generator)
    rotation = torch.linalg.qr(embedding(d, d, seed + 2)).Q
    moved = cluster_coding_rate((Z @ rotation)[rows], Pi[rows][:, clusters], 0.5)
    torch.testing.assert_close(moved, cluster_coding_rate(Z, Pi, 0.5), rtol=3e-6, atol=0)


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 40), st.integers(1, 10), st.integers(1, 6), st.integers(0, 2**31))
def test_a_partition_never_costs_more_than_the_whole(n: int, d: int, k: int, seed: int) -> None:
    Z, Pi = embedding(n, d, seed), one_hot(n, k, seed)
    R, Rc = coding_rate(Z, 0.5), cluster_coding_rate(Z, Pi, 0.5)
    assert 0 <= Rc <= R * (1 + 1e-6)


def test_one_cluster_is_the_coding_rate() -> None:
    Z = embedding(50, 7)
    torch.testing.assert_close(cluster_coding_rate(Z, Z.new_ones(50, 1), 0.3), coding_rate(Z, 0.3), rtol=2e-6, atol=0)


def test_heads_are_computed_as_if_alone() -> None:
    Z = embedding(40, 6)
    Pi = torch.stack([memberships(40, 5), one_hot(40, 5), memberships(40, 5, 30.0)])
    together = value_and_gradients(cluster_coding_rate, Z, Pi, 0.5)
    alone = [value_and_gradients(cluster_coding_rate, Z, head, 0.5) for head in Pi]
    torch.testing.assert_close(together[0], torch.stack([one[0] for one in alone]), rtol=2e-6, atol=0)
    torch.testing.assert_close(together[1], torch.stack([one[1] for one in alone]).sum(0), rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(together[2], torch.stack([one[2] for one in alone]), rtol=1e-5, atol=1e-6)


def test_heads_get_their_own_gradient() -> None:
    Z, Pi = embedding(20, 4).requires_grad_(), torch.stack([memberships(20, 3), memberships(20, 3, seed=2)])
    weights = torch.tensor([2.0, -3.0], dtype=torch.float64)
    (got,) = torch.autograd.grad((weights * cluster_coding_rate(Z, Pi, 0.5)).sum(), Z)
    (want,) = torch.autograd.grad(2 * naive(Z, Pi[0], 0.5) - 3 * naive(Z, Pi[1], 0.5), Z)
    torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("tiny", [0.0, 1e-300, 1e-30, 1e-9])
def test_empty_and_almost_empty_clusters(tiny: float) -> None:
    Z, Pi = embedding(30, 5), memberships(30, 4)
    Pi[:, 2] = 0
    Pi[7, 2] = tiny
    value, dZ, dPi = value_and_gradients(cluster_coding_rate, Z, Pi, 0.5)
    torch.testing.assert_close(value, naive(Z, Pi[:, [0, 1, 3]], 0.5), rtol=2e-6, atol=0)
    assert dZ.isfinite().all()
    assert dPi.isfinite().all()
    if tiny == 0:
        assert (dPi[:, 2] == 0).all()


def test_no_cluster_has_members() -> None:
    value, dZ, dPi = value_and_gradients(cluster_coding_rate, embedding(5, 3), torch.zeros(5, 2).double(), 0.5)
    assert value == 0
    assert not dZ.any()
    assert not dPi.any()


def test_duplicate_and_zero_rows() -> None:
    Z = embedding(3, 6).repeat(10, 1)
    Z[4] = 0
    Pi = memberships(30, 3)
    got, want = value_and_gradients(cluster_coding_rate, Z, Pi, 0.2), value_and_gradients(naive, Z, Pi, 0.2)
    for a, b in zip(got, want, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-5)


def test_memberships_that_sum_to_one_only_to_rounding() -> None:
    Z, Pi = embedding(200, 8), memberships(200, 6, 5.0)
    rounded = Pi.half()
    value = cluster_coding_rate(Z.half(), rounded, 0.5)
    assert value.dtype == torch.float32
    torch.testing.assert_close(value.double(), naive(Z, Pi, 0.5), rtol=2e-3, atol=0)
    torch.testing.assert_close(value.double(), naive(Z.half().double(), rounded.double(), 0.5), rtol=1e-5, atol=0)


def test_autocast_does_not_reach_inside() -> None:
    Z, Pi = embedding(100, 16).float(), memberships(100, 5).float()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = value_and_gradients(cluster_coding_rate, Z, Pi, 0.2)
    for a, b in zip(inside[:1], value_and_gradients(cluster_coding_rate, Z, Pi, 0.2), strict=False):
        torch.testing.assert_close(a, b, rtol=0, atol=0)


def test_not_finite_gives_nan_rather_than_an_exception() -> None:
    Z, Pi = embedding(30, 4), memberships(30, 3)
    Z[5, 1] = torch.nan
    assert cluster_coding_rate(Z, Pi, 0.5).isnan()
    Z, Pi = embedding(30, 4), memberships(30, 3)
    Pi[5, 1] = torch.nan
    assert cluster_coding_rate(Z, Pi, 0.5).isnan()


@pytest.mark.parametrize("shape", [(4,), (5, 2), (2, 5, 2), (4, 0), (1, 1, 4, 2)])
def test_bad_memberships_are_named(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"Pi has shape .* for n=4 rows"):
        cluster_coding_rate(embedding(4, 3), torch.ones(shape), 0.5)
