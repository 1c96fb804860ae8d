"""The processes that train one network, and the operations between them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn

from cgmcr2._threads import all_threads

T = TypeVar("T")


class ProcessError(ConnectionError):
    """Another process of the group has failed."""


class Group:
    """A group of one process, in which every operation returns its input.

    ``TorchGroup`` implements the same operations for several processes. All processes must call them in the same order.
    """

    rank = 0  # number of this process
    size = 1  # number of processes

    def part(self, n: int) -> slice:
        """The part of ``n`` rows that this process computes; it may be empty.

        >>> Group().part(10)
        slice(0, 10, None)
        """
        return slice(0, n)

    def gather(self, X: Tensor, n: int, dim: int = 0) -> Tensor:
        """Concatenate along ``dim`` the parts of ``n`` rows that all processes hold; differentiable."""
        return X

    def sum(self, X: Tensor) -> Tensor:
        """Sum over the processes, without gradient."""
        return X

    def any(self, flag: bool) -> bool:
        """Whether ``flag`` is true in any process."""
        return flag

    def sum_gradients(self, parameters: Iterable[nn.Parameter]) -> None:
        """Sum the gradients of ``parameters`` over the processes, in place."""

    def on_first(self, function: Callable[[], T]) -> T:
        """Call ``function`` in the first process only and return its result, which is pickled, in all.

        If the call fails, the other processes raise ``ProcessError``.
        """
        return function()

    def all_threads(self) -> contextlib.AbstractContextManager[object]:
        """Context in which this process uses the threads of all processes on its machine, while the others wait."""
        return contextlib.nullcontext()


ONE_PROCESS = Group()


class TorchGroup(Group):
    """The processes of torch's default process group.

    Args:
        local_size: number of processes on this machine.
    """

    def __init__(self, local_size: int = 1) -> None:
        self.rank, self.size, self.local_size = dist.get_rank(), dist.get_world_size(), local_size

    def part(self, n: int) -> slice:
        return _part(n, self.rank, self.size)

    def gather(self, X: Tensor, n: int, dim: int = 0) -> Tensor:
        whole: Tensor = _Gather.apply(X.transpose(0, dim), n, self.rank, self.size)  # type: ignore[no-untyped-call]
        return whole.transpose(0, dim)

    def sum(self, X: Tensor) -> Tensor:
        total = X.detach().clone()
        dist.all_reduce(total)
        return total

    def any(self, flag: bool) -> bool:
        return bool(self.sum(torch.tensor(float(flag))))

    def sum_gradients(self, parameters: Iterable[nn.Parameter]) -> None:
        works = [
            dist.all_reduce(parameter.grad, async_op=True) for parameter in parameters if parameter.grad is not None
        ]
        for work in works:
            work.wait()

    def on_first(self, function: Callable[[], T]) -> T:
        outcome: list[Any] = [None, None]  # the result, and whether the call failed
        error: Exception | None = None
        if self.rank == 0:
            try:
                with self.all_threads():
                    outcome = [function(), False]
            except Exception as exception:
                error, outcome = exception, [None, True]
        dist.broadcast_object_list(outcome, device=torch.device("cpu"))
        if error is not None:
            raise error
        if outcome[1]:
            raise ProcessError("The first process has failed; see its message.")
        result: T = outcome[0]
        return result

    def all_threads(self) -> contextlib.AbstractContextManager[object]:
        return all_threads(self.local_size)


class _Gather(torch.autograd.Function):
    """Concatenate the parts of all processes.

    All processes compute the same loss from the result, so the gradient of a part is a slice of the gradient that the
    process has.
    """

    @staticmethod
    def forward(ctx: Any, X: Tensor, n: int, rank: int, size: int) -> Tensor:
        ctx.part = _part(n, rank, size)
        longest = -(-n // size)
        padded = X.new_zeros((longest, *X.shape[1:]))
        padded[: len(X)] = X
        blocks = [torch.empty_like(padded) for _ in range(size)]
        dist.all_gather(blocks, padded)  # needs blocks of equal length
        parts = [_part(n, other, size) for other in range(size)]
        return torch.cat([block[: part.stop - part.start] for block, part in zip(blocks, parts, strict=True)])

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None, None]:
        return gradients[0][ctx.part], None, None, None


def _part(n: int, rank: int, size: int) -> slice:
    """The part of ``n`` rows of process ``rank``; the lengths differ by at most 1.

    >>> [_part(7, rank, 3) for rank in range(3)]
    [slice(0, 2, None), slice(2, 4, None), slice(4, 7, None)]
    """
    return slice(n * rank // size, n * (rank + 1) // size)
