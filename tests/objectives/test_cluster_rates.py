"""The kernels of the cluster-wise coding rate against dense inverses, for every chunk size."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from cgmcr2.objectives._cluster_rates import Derivatives, rates_by_members, rates_by_rows

N, D, ALPHA = 60, 8, 32.0
CHUNK_BYTES = [1, 2**14, None]  # one cluster per chunk, a few, all


def embedding() -> Tensor:
    return torch.randn(N, D, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


def cluster_weights(clusters: int, members: int) -> Tensor:
    """Weights (clusters, n) of random members, which sum to one."""
    generator = torch.Generator().manual_seed(1)
    weights = torch.rand(clusters, N, dtype=torch.float64, generator=generator)
    rank = torch.rand(clusters, N, generator=generator).argsort(1).argsort(1)
    weights[rank >= members] = 0
    return weights / weights.sum(1, keepdim=True)


def empty_derivatives(Z: Tensor, clusters: int) -> Derivatives:
    return Derivatives(Z.square().sum(1).expand(clusters, N).clone(), Z.new_zeros(2, N, D))


def dense(Z: Tensor, weights: Tensor, share: Tensor, heads: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Rates (c,), leverage (c, n) and dZ (2, n, d) by explicit inverses."""
    rates, leverage, dZ = [], [], Z.new_zeros(2, N, D)
    for w, part, head in zip(weights, share, heads, strict=True):
        M = torch.eye(D, dtype=Z.dtype) + ALPHA * Z.T @ torch.diag(w) @ Z
        rates.append(torch.logdet(M))
        leverage.append((Z @ M.inverse() * Z).sum(1))
        dZ[head] += part * w[:, None] * (Z @ M.inverse())
    return torch.stack(rates), torch.stack(leverage), dZ


@pytest.mark.parametrize("chunk_bytes", CHUNK_BYTES)
def test_rates_by_rows(chunk_bytes: int | None) -> None:
    Z, weights, share = embedding(), cluster_weights(5, N), torch.rand(5, dtype=torch.float64)
    heads, clusters = torch.ones(5, dtype=torch.int64), torch.arange(5)
    out = empty_derivatives(Z, 5)
    rates = rates_by_rows(Z, clusters, 1, weights, share, ALPHA, out, chunk_bytes=chunk_bytes)
    torch.testing.assert_close((rates, out.leverage, out.dZ), dense(Z, weights, share, heads))
    without = rates_by_rows(Z, clusters, 1, weights, share, ALPHA, None, chunk_bytes=chunk_bytes)
    torch.testing.assert_close(without, rates)


@pytest.mark.parametrize("chunk_bytes", CHUNK_BYTES)
@pytest.mark.parametrize("m", [3, D, 20])
def test_rates_by_members(m: int, chunk_bytes: int | None) -> None:
    Z, weights, share = embedding(), cluster_weights(5, m), torch.rand(5, dtype=torch.float64)
    heads, clusters = torch.tensor([0, 1, 1, 0, 1]), torch.arange(5)
    rows = weights.topk(m).indices
    members = weights.gather(1, rows)
    out = empty_derivatives(Z, 5)
    rates = rates_by_members(Z, clusters, heads, rows, members, share, ALPHA, out, chunk_bytes=chunk_bytes)
    expected_rates, expected_leverage, expected_dZ = dense(Z, weights, share, heads)
    expected_leverage = torch.where(weights > 0, expected_leverage, Z.square().sum(1))  # other rows keep z'z
    torch.testing.assert_close((rates, out.leverage, out.dZ), (expected_rates, expected_leverage, expected_dZ))
    without = rates_by_members(Z, clusters, heads, rows, members, share, ALPHA, None, chunk_bytes=chunk_bytes)
    torch.testing.assert_close(without, rates)


def test_rates_by_rows_do_not_depend_on_the_number_of_threads() -> None:
    Z, weights, share = embedding(), cluster_weights(80, N), torch.rand(80, dtype=torch.float64)
    before = torch.get_num_threads()
    results = []
    for threads in (1, 2):
        torch.set_num_threads(threads)
        out = empty_derivatives(Z, 80)
        rates = rates_by_rows(Z, torch.arange(80), 1, weights, share, ALPHA, out, chunk_bytes=1)
        results.append((rates, *out))
    torch.set_num_threads(before)
    assert all(torch.equal(one, two) for one, two in zip(*results, strict=True))
    expected = dense(Z, weights, share, torch.ones(80, dtype=torch.int64))
    torch.testing.assert_close(results[1], expected)
