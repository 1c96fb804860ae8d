"""Blocked nearest neighbours against the full similarity matrix."""

from __future__ import annotations

import pytest
import torch

from cgmcr2.graphs import knn
from cgmcr2.graphs.knn import top_similar


def brute_force(X: torch.Tensor, s: int) -> tuple[torch.Tensor, torch.Tensor]:
    similarity = X @ X.T
    similarity.fill_diagonal_(-torch.inf)
    top = similarity.topk(s)
    return top.values, top.indices


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_equals_the_full_similarity_matrix(dtype: torch.dtype) -> None:
    X = torch.randn(57, 5, generator=torch.Generator().manual_seed(0), dtype=dtype)
    values, indices = top_similar(X, 7, sort=True)
    expected, columns = brute_force(X, 7)
    torch.testing.assert_close(values, expected)
    assert torch.equal(indices, columns)


def test_more_than_one_block() -> None:
    n = int((2 * knn.BLOCK_ENTRIES) ** 0.5) + 1  # more than BLOCK_ENTRIES similarities in all
    X = torch.nn.functional.normalize(torch.randn(n, 4, generator=torch.Generator().manual_seed(1)), dim=1)
    values, _ = top_similar(X, 3, sort=True)
    rows = torch.tensor([0, 1, n // 2, n - 1])
    similarity = X[rows] @ X.T
    similarity[torch.arange(len(rows)), rows] = -torch.inf
    torch.testing.assert_close(values[rows], similarity.topk(3).values)


def test_at_most_n_minus_one_neighbours_and_never_the_row_itself() -> None:
    values, indices = top_similar(torch.ones(4, 2), 10)
    assert values.shape == indices.shape == (4, 3)
    assert not (indices == torch.arange(4)[:, None]).any()


def test_refuses_zero_neighbours() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        top_similar(torch.eye(3), 0)
