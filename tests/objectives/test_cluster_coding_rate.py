"""The cluster-wise coding rate: values by hand, a naive implementation, error bounds and invariances."""

from __future__ import annotations

import functools
import importlib
import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional

from cgmcr2.objectives import cluster_coding_rate, coding_rate

module = importlib.import_module(
    "cgmcr2.objectives.cluster_coding_rate"
)  # cgmcr2.objectives.cluster_coding_rate is the function


def naive(Z: Tensor, Pi: Tensor, eps: float) -> Tensor:
    """The formula, cluster by cluster; differentiable."""
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


def value_and_gradients(
    function: Callable[..., Tensor], Z: Tensor, Pi: Tensor, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
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
    # all rows in the first cluster: the coding rate of all rows, two eigenvalues 1 + 1/2 * 8
    assert cluster_coding_rate(Z, torch.tensor([[1.0, 0.0]]).repeat(6, 1), 0.5).item() == pytest.approx(2 * log(5.0))


def close(actual: Tensor, expected: Tensor, relative: float = 1e-5) -> None:
    """Assert equality up to a fraction of the largest entry."""
    torch.testing.assert_close(actual, expected, rtol=relative, atol=relative * expected.abs().max().item())


SHAPES = [(60, 8, 5), (10, 24, 3), (30, 4, 1), (1, 3, 2), (40, 3, 40)]


@pytest.mark.parametrize(("n", "d", "k"), SHAPES)
@pytest.mark.parametrize("kind", ["soft", "sharp", "hard"])
def test_equals_the_naive_implementation(n: int, d: int, k: int, kind: str) -> None:
    Z = embedding(n, d)
    Pi = {"soft": memberships(n, k), "sharp": memberships(n, k, 20.0), "hard": one_hot(n, k)}[kind]
    actual, expected = value_and_gradients(cluster_coding_rate, Z, Pi, 0.5), value_and_gradients(naive, Z, Pi, 0.5)
    close(actual[0], expected[0], 1e-6)
    close(actual[1], expected[1])
    close(actual[2] * Pi, expected[2] * Pi)
    if kind == "soft":  # all memberships are kept
        close(actual[2], expected[2])
    nonempty = Pi.sum(0) > 0  # the gradient of an empty cluster is zero by convention
    assert (actual[2] >= expected[2] * (1 - 1e-5) - 1e-5)[:, nonempty].all()  # an upper bound for dropped memberships


@pytest.mark.parametrize(("n", "d", "k"), SHAPES)
@pytest.mark.parametrize("sharpness", [1.0, 20.0, 60.0])
def test_gradient_through_a_softmax(n: int, d: int, k: int, sharpness: float) -> None:
    logits = sharpness * torch.randn(n, k, dtype=torch.float64, generator=torch.Generator().manual_seed(2))

    def through_softmax(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
        return lambda Z, logits, eps: function(Z, torch.softmax(logits, -1), eps)

    actual = value_and_gradients(through_softmax(cluster_coding_rate), embedding(n, d), logits, 0.5)
    expected = value_and_gradients(through_softmax(naive), embedding(n, d), logits, 0.5)
    close(actual[0], expected[0], 1e-6)
    close(actual[1], expected[1])
    torch.testing.assert_close(actual[2], expected[2], rtol=1e-5, atol=1e-7)


def mixed(tail: float, n: int = 200) -> Tensor:
    """Two heads; clusters of 5, 40 and 155 of 200 rows, the first two with tails, a diffuse and an empty one."""
    Pi = torch.zeros(2, n, 5, dtype=torch.float64)
    Pi[:, :5, 0] = Pi[:, 5:45, 1] = Pi[:, 45:, 2] = 1.0
    Pi[1] = Pi[1].flip(0)
    generator = torch.Generator().manual_seed(3)
    Pi[..., :2] += tail * 10 ** -torch.rand(2, n, 2, dtype=torch.float64, generator=generator)
    Pi[..., 3] = torch.rand(2, n, dtype=torch.float64, generator=generator)
    return Pi / Pi.sum(-1, keepdim=True)


def test_small_large_and_diffuse_clusters_in_one_call() -> None:
    Z, Pi = embedding(200, 8), mixed(tail=1e-13)
    weights = Pi.mT.flatten(0, 1)
    weights = weights / weights.sum(-1, keepdim=True).clamp(min=1e-300)
    counts = module._member_counts(weights, 8 / 0.25, 1e-6)
    sizes = {m for m, _ in module._groups(counts, module._max_members(200, 8))}
    assert None in sizes  # all rows
    members = [m for m in sizes if m is not None]
    assert min(members) <= 8  # members x members
    assert max(members) > 8  # d x d
    actual = value_and_gradients(cluster_coding_rate, Z, Pi, 0.5)
    expected = [value_and_gradients(naive, Z, head, 0.5) for head in Pi]
    close(actual[0], torch.stack([result[0] for result in expected]), 1e-6)
    close(actual[1], torch.stack([result[1] for result in expected]).sum(0))
    dPi = torch.stack([result[2] for result in expected])
    close(actual[2] * Pi, dPi * Pi)


@pytest.mark.parametrize("tolerance", [1e-2, 1e-4, 1e-6])
@pytest.mark.parametrize("cluster", [0, 1])
def test_error_is_below_the_tolerance(cluster: int, tolerance: float) -> None:
    Z, Pi = embedding(200, 8), mixed(tail=1e-3 * tolerance)[0]
    counts = module._member_counts(Pi.T / Pi.sum(0).clamp(min=1e-300).unsqueeze(-1), 8 / 0.25, tolerance)
    assert counts.tolist() == [5, 40, 155, 200, 0]  # only the tails are left out
    Pi = Pi[:, [cluster]]
    rate = functools.partial(cluster_coding_rate, tolerance=tolerance)
    actual, expected = value_and_gradients(rate, Z, Pi, 0.5), value_and_gradients(naive, Z, Pi, 0.5)
    error = (1 - actual[0] / expected[0]).item()
    assert error <= tolerance
    if cluster == 0:
        assert error > 0.01 * tolerance  # the test covers left-out memberships
    bound = tolerance * math.log(1 + 8 / 0.25)
    close(actual[1], expected[1], bound)
    close(actual[2] * Pi, expected[2] * Pi, bound)


@pytest.mark.parametrize("sharpness", [1.0, 30.0])
def test_float32_precision(sharpness: float) -> None:
    Z, Pi = embedding(300, 64), memberships(300, 60, sharpness)
    actual = value_and_gradients(cluster_coding_rate, Z.float(), Pi.float(), 0.5)
    expected = value_and_gradients(naive, Z, Pi, 0.5)
    close(actual[0].double(), expected[0], 1e-6)
    close(actual[1].double(), expected[1])
    close((actual[2] * Pi).double(), expected[2] * Pi)


def test_value_without_gradient_and_gradient_with_respect_to_one_input() -> None:
    Z, Pi = embedding(40, 6), memberships(40, 5, 20.0)
    value, dZ, dPi = value_and_gradients(cluster_coding_rate, Z, Pi, 0.5)
    torch.testing.assert_close(cluster_coding_rate(Z, Pi, 0.5), value)
    Z.requires_grad_()
    torch.testing.assert_close(torch.autograd.grad(cluster_coding_rate(Z, Pi, 0.5), Z)[0], dZ)
    with torch.no_grad():
        assert not cluster_coding_rate(Z, Pi, 0.5).requires_grad
    Z, Pi = Z.detach(), Pi.requires_grad_()
    torch.testing.assert_close(torch.autograd.grad(cluster_coding_rate(Z, Pi, 0.5), Pi)[0], dPi)


def test_second_derivative_raises() -> None:
    Z, Pi = embedding(10, 3).requires_grad_(), memberships(10, 2)
    for rate in (coding_rate(Z, 0.5), cluster_coding_rate(Z, Pi, 0.5)):
        with pytest.raises(RuntimeError, match="no second derivative"):
            torch.autograd.grad(rate, Z, create_graph=True)


@pytest.mark.parametrize(("n", "d", "k"), [(9, 4, 3), (4, 6, 2)])
def test_gradcheck(n: int, d: int, k: int) -> None:
    Z, Pi = embedding(n, d).requires_grad_(), memberships(n, k).requires_grad_()
    assert torch.autograd.gradcheck(lambda Z, Pi: cluster_coding_rate(Z, Pi, 0.5, tolerance=0), (Z, Pi))


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 30), st.integers(1, 10), st.integers(1, 6), st.integers(0, 2**31))
def test_invariant_to_rotation_and_order(n: int, d: int, k: int, seed: int) -> None:
    Z, Pi = embedding(n, d, seed), memberships(n, k, 3.0, seed + 1)
    generator = torch.Generator().manual_seed(seed)
    rows, clusters = torch.randperm(n, generator=generator), torch.randperm(k, generator=generator)
    rotation = torch.linalg.qr(embedding(d, d, seed + 2)).Q
    transformed = cluster_coding_rate((Z @ rotation)[rows], Pi[rows][:, clusters], 0.5)
    torch.testing.assert_close(transformed, cluster_coding_rate(Z, Pi, 0.5), rtol=3e-6, atol=0)


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 40), st.integers(1, 10), st.integers(1, 6), st.integers(0, 2**31))
def test_hard_partition_never_exceeds_the_coding_rate(n: int, d: int, k: int, seed: int) -> None:
    Z, Pi = embedding(n, d, seed), one_hot(n, k, seed)
    R, Rc = coding_rate(Z, 0.5), cluster_coding_rate(Z, Pi, 0.5)
    assert 0 <= Rc <= R * (1 + 1e-6)


def test_one_cluster_equals_the_coding_rate() -> None:
    Z = embedding(50, 7)
    torch.testing.assert_close(cluster_coding_rate(Z, Z.new_ones(50, 1), 0.3), coding_rate(Z, 0.3), rtol=2e-6, atol=0)


def test_heads_equal_separate_calls() -> None:
    Z = embedding(40, 6)
    Pi = torch.stack([memberships(40, 5), one_hot(40, 5), memberships(40, 5, 30.0)])
    joint = value_and_gradients(cluster_coding_rate, Z, Pi, 0.5)
    separate = [value_and_gradients(cluster_coding_rate, Z, head, 0.5) for head in Pi]
    torch.testing.assert_close(joint[0], torch.stack([result[0] for result in separate]), rtol=2e-6, atol=0)
    torch.testing.assert_close(joint[1], torch.stack([result[1] for result in separate]).sum(0), rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(joint[2], torch.stack([result[2] for result in separate]), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("sharpness", [1.0, 50.0])
def test_gradient_of_weighted_heads(sharpness: float) -> None:
    Z = embedding(20, 4).requires_grad_()
    Pi = torch.stack([memberships(20, 3, sharpness), memberships(20, 3, sharpness, seed=2)])
    weights = torch.tensor([2.0, -3.0], dtype=torch.float64)
    (actual,) = torch.autograd.grad((weights * cluster_coding_rate(Z, Pi, 0.5)).sum(), Z)
    (expected,) = torch.autograd.grad(2 * naive(Z, Pi[0], 0.5) - 3 * naive(Z, Pi[1], 0.5), Z)
    torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-6)


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


def test_all_clusters_empty() -> None:
    value, dZ, dPi = value_and_gradients(cluster_coding_rate, embedding(5, 3), torch.zeros(5, 2).double(), 0.5)
    assert value == 0
    assert not dZ.any()
    assert not dPi.any()


def test_duplicate_and_zero_rows() -> None:
    Z = embedding(3, 6).repeat(10, 1)
    Z[4] = 0
    Pi = memberships(30, 3)
    actual, expected = value_and_gradients(cluster_coding_rate, Z, Pi, 0.2), value_and_gradients(naive, Z, Pi, 0.2)
    for a, b in zip(actual, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-5)


def test_half_precision_memberships() -> None:
    Z, Pi = embedding(200, 8), memberships(200, 6, 5.0)
    rounded = Pi.half()
    value = cluster_coding_rate(Z.half(), rounded, 0.5)
    assert value.dtype == torch.float32
    torch.testing.assert_close(value.double(), naive(Z, Pi, 0.5), rtol=2e-3, atol=0)
    torch.testing.assert_close(value.double(), naive(Z.half().double(), rounded.double(), 0.5), rtol=1e-5, atol=0)


def test_autocast_has_no_effect() -> None:
    Z, Pi = embedding(100, 16).float(), memberships(100, 5).float()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = value_and_gradients(cluster_coding_rate, Z, Pi, 0.2)
    for a, b in zip(inside, value_and_gradients(cluster_coding_rate, Z, Pi, 0.2), strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=0)


def test_non_finite_input_gives_nan() -> None:
    for bad in (torch.nan, torch.inf):
        for sharpness in (1.0, 50.0):
            Z, Pi = embedding(30, 4), memberships(30, 3, sharpness)
            Z[5, 1] = bad
            assert cluster_coding_rate(Z, Pi, 0.5).isnan()
            Z, Pi = embedding(30, 4), memberships(30, 3, sharpness)
            Pi[5, 1] = bad
            assert cluster_coding_rate(Z, Pi, 0.5).isnan()


@pytest.mark.parametrize("shape", [(4,), (5, 2), (2, 5, 2), (4, 0), (1, 1, 4, 2)])
def test_invalid_memberships(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"Pi has shape .* for n=4 rows"):
        cluster_coding_rate(embedding(4, 3), torch.ones(shape), 0.5)


def test_invalid_arguments() -> None:
    with pytest.raises(ValueError, match="tolerance is -1"):
        cluster_coding_rate(embedding(4, 3), torch.ones(4, 2), 0.5, tolerance=-1)
