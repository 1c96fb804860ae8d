"""Nearest neighbours by inner product, in blocks of rows. Needs torch only."""

from __future__ import annotations

import torch
from torch import Tensor

BLOCK_ENTRIES = 2**22  # similarities held at once: 16 MB of float32


@torch.no_grad()
def top_similar(X: Tensor, s: int, *, sort: bool = False) -> tuple[Tensor, Tensor]:
    """The ``s`` largest inner products of each row of ``X (n, p)`` with the other rows, at most n - 1.

    Rows are compared with all others one block at a time, so no n x n array exists. Scale the rows to unit length first
    for cosine similarity.

    Returns:
        Inner products (n, s) and row numbers (n, s), in descending order if ``sort``, else in any order.

    >>> top_similar(torch.tensor([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0]]), 1)[1].flatten()
    tensor([1, 0, 1])
    """
    if s < 1:
        raise ValueError(f"s is {s}; keep at least 1 neighbour of each row.")
    n = len(X)
    s = min(s, n - 1)
    block = min(n, max(1, BLOCK_ENTRIES // n))
    values, indices = X.new_empty(n, s), torch.empty(n, s, dtype=torch.int64, device=X.device)
    buffer = X.new_empty(block, n)  # reused: with a new one per block the allocator keeps nearly n x n entries
    with torch.autocast(X.device.type, enabled=False):
        for start in range(0, n, block):
            rows = slice(start, start + block)
            similarity = torch.mm(X[rows], X.T, out=buffer[: len(X[rows])])  # (block, p) x (p, n) -> (block, n)
            similarity.diagonal(start).fill_(-torch.inf)  # a row is not its own neighbour
            values[rows], indices[rows] = similarity.topk(s, dim=-1, sorted=sort)
    return values, indices
