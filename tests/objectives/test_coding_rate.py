"""The coding rate: values by hand, a naive implementation, gradients and invariances."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional

from cgmcr2.objectives import coding_rate


def naive(Z: torch.Tensor, eps: float) -> torch.Tensor:
    n, d = Z.shape
    return torch.linalg.eigvalsh(torch.eye(d, dtype=Z.dtype) + d / (n * eps**2) * Z.T @ Z).log().sum()


def unit(n: int, d: int, seed: int = 0) -> torch.Tensor:
    return functional.normalize(torch.randn(n, d, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)))


def test_values_by_hand() -> None:
    # n orthonormal rows in d dimensions: n eigenvalues 1 + d / (n eps^2), the others 1
    assert coding_rate(torch.eye(3), 1.0).item() == pytest.approx(3 * torch.tensor(2.0).log().item())
    assert coding_rate(torch.eye(4)[:2], 0.5).item() == pytest.approx(2 * torch.tensor(9.0).log().item())
    # the same row five times: one eigenvalue 1 + d / eps^2
    assert coding_rate(torch.tensor([[0.6, 0.8]]).repeat(5, 1), 0.5).item() == pytest.approx(
        torch.tensor(9.0).log().item()
    )


@pytest.mark.parametrize(("n", "d"), [(50, 8), (8, 8), (5, 20), (1, 3)])
@pytest.mark.parametrize("eps", [0.1, 0.5, 2.0])
def test_equals_the_naive_implementation(n: int, d: int, eps: float) -> None:
    Z = unit(n, d).requires_grad_()
    rate, expected = coding_rate(Z, eps), naive(Z, eps)
    torch.testing.assert_close(rate, expected)
    torch.testing.assert_close(torch.autograd.grad(rate, Z), torch.autograd.grad(expected, Z))


@pytest.mark.parametrize(("n", "d"), [(7, 3), (3, 5)])
def test_gradcheck(n: int, d: int) -> None:
    assert torch.autograd.gradcheck(lambda Z: coding_rate(Z, 0.5), unit(n, d).requires_grad_())


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 30), st.integers(1, 12), st.integers(0, 2**31))
def test_invariant_to_rotation_and_row_order(n: int, d: int, seed: int) -> None:
    Z = unit(n, d, seed)
    rotation = torch.linalg.qr(unit(d, d, seed + 1)).Q
    order = torch.randperm(n, generator=torch.Generator().manual_seed(seed))
    torch.testing.assert_close(coding_rate(Z[order] @ rotation, 0.5), coding_rate(Z, 0.5))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_computed_in_float32(dtype: torch.dtype) -> None:
    Z = unit(100, 16).to(dtype).requires_grad_()
    rate = coding_rate(Z, 0.2)
    assert rate.dtype == torch.float32
    torch.testing.assert_close(rate.double(), naive(Z.detach().double(), 0.2), rtol=1e-5, atol=0.0)
    rate.backward()
    assert Z.grad is not None
    assert Z.grad.isfinite().all()


def test_autocast_has_no_effect() -> None:
    Z = unit(200, 32).float().requires_grad_()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = coding_rate(Z, 0.2)
        (gradient,) = torch.autograd.grad(inside, Z)
    torch.testing.assert_close(inside, coding_rate(Z, 0.2), rtol=0, atol=0)
    torch.testing.assert_close(gradient, torch.autograd.grad(coding_rate(Z, 0.2), Z)[0], rtol=0, atol=0)


def test_non_finite_input_gives_nan() -> None:
    for bad in (torch.nan, torch.inf):
        Z = unit(10, 4)
        Z[3, 2] = bad
        assert coding_rate(Z, 0.5).isnan()


@pytest.mark.parametrize(
    ("Z", "eps", "message"),
    [
        (torch.zeros(3), 0.5, r"shape \(3,\)"),
        (torch.zeros(0, 3), 0.5, "n, d >= 1"),
        (torch.zeros(2, 2), 0.0, "eps is 0.0"),
        (torch.zeros(2, 2), float("nan"), "eps is nan"),
    ],
)
def test_invalid_input(Z: torch.Tensor, eps: float, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        coding_rate(Z, eps)


THREADS = """
import torch
from cgmcr2.objectives import cluster_coding_rate, coding_rate
torch.manual_seed(0)
Z = torch.nn.functional.normalize(torch.randn(400, 256))
Pi = torch.softmax(torch.randn(400, 40), -1)
torch.set_num_threads(1)
def rates():
    return torch.stack([coding_rate(Z, 0.5), cluster_coding_rate(Z, Pi, 0.5)])
before = rates()
for threads in (2, 3, 1):
    torch.set_num_threads(threads)
    torch.testing.assert_close(rates(), before, rtol=1e-5, atol=0)
M = torch.eye(256, dtype=torch.float64) + 256 / (400 * 0.25) * (Z.T @ Z).double()
torch.testing.assert_close(before[0].double(), torch.linalg.eigvalsh(M).log().sum(), rtol=1e-5, atol=0)
print("correct")
"""


def test_rates_are_correct_after_changing_the_number_of_threads() -> None:
    # LU-based logdet is silently wrong in some builds after such a change, hence the separate process
    process = subprocess.run([sys.executable, "-c", THREADS], capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr
    assert process.stdout == "correct\n"  # no error output of a linear algebra library before it
