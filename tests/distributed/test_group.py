from __future__ import annotations

from typing import Any

import pytest
import torch

from cgmcr2.distributed import ONE_PROCESS, ProcessError, process_group
from cgmcr2.distributed.group import _part

from .conftest import Run


@pytest.mark.parametrize("n", [0, 1, 2, 3, 7, 8, 512])
@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_the_parts_cover_all_rows_once_and_differ_by_at_most_one(n: int, size: int) -> None:
    rows = list(range(n))
    parts = [rows[_part(n, rank, size)] for rank in range(size)]
    assert [row for part in parts for row in part] == rows
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


def collectives(n: int) -> dict[str, Any]:
    X = torch.arange(2.0 * n * 3, dtype=torch.float64).view(2, n, 3)
    weights = torch.linspace(-1, 1, X.numel(), dtype=torch.float64).view_as(X)
    with process_group() as group:
        mine = X[:, group.part(n)].clone().requires_grad_()
        whole = group.gather(mine, n, dim=1)
        (whole.square() * weights).sum().backward()
        parameter = torch.nn.Parameter(torch.zeros(2))
        parameter.grad = torch.full((2,), 1.0 + group.rank)
        group.sum_gradients([parameter, torch.nn.Parameter(torch.zeros(1))])
        return {
            "rank": group.rank,
            "equal": torch.equal(whole, X),
            "gradient": torch.equal(mine.grad, (2 * X * weights)[:, group.part(n)]),
            "half": group.gather(mine.detach()[0].bfloat16(), n).dtype,
            "sum": group.sum(torch.tensor([1.0, group.rank])).tolist(),
            "gradients": parameter.grad.tolist(),
            "any": [group.any(group.rank == group.size - 1), group.any(False)],
            "first": group.on_first(lambda: f"from {group.rank}"),
        }


@pytest.mark.parametrize("n", [1, 6, 7])
def test_gather_sum_any_and_on_first(run: Run, n: int) -> None:
    for rank, result in enumerate(run(2, collectives, n)):
        assert result == {
            "rank": rank,
            "equal": True,
            "gradient": True,
            "half": torch.bfloat16,
            "sum": [2.0, 1.0],
            "gradients": [3.0, 3.0],
            "any": [True, False],
            "first": "from 0",
        }


def failing() -> None:
    with process_group() as group:
        group.on_first(lambda: int("x"))


def test_an_error_in_the_first_process_ends_the_others(run: Run) -> None:
    first, second = run(2, failing)
    assert isinstance(first, ValueError)
    assert isinstance(second, ProcessError)
    assert str(second) == "The first process has failed; see its message."


def test_one_process_returns_its_input() -> None:
    X = torch.ones(2, requires_grad=True)
    assert ONE_PROCESS.gather(X, 2) is X
    assert ONE_PROCESS.sum(X) is X
    assert ONE_PROCESS.any(True)
    assert ONE_PROCESS.on_first(lambda: 3) == 3
    with process_group() as group:
        assert group is ONE_PROCESS
