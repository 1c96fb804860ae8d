from __future__ import annotations

import threading
from collections.abc import Iterator

import numpy as np
import pytest
import scipy.linalg  # noqa: F401 - loads its BLAS before the first count
import torch
from threadpoolctl import threadpool_info

from cgmcr2._threads import SMALL, SMALL_BATCH, blas_threads, map_threads, torch_threads


@pytest.fixture
def two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def blas() -> list[int]:
    np.linalg.eigh(np.eye(2))
    return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]


def test_small_problems_use_one_thread_and_restore_the_number() -> None:
    before = blas()
    with blas_threads(rows=10):
        assert set(blas()) == {1}
    assert blas() == before
    with blas_threads(rows=SMALL + 1):
        assert blas() == before


@pytest.mark.usefixtures("two_threads")
def test_small_batches_use_one_thread_and_restore_the_number() -> None:
    with torch_threads(SMALL_BATCH):
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == 2
    with torch_threads(SMALL_BATCH + 1):
        assert torch.get_num_threads() == 2


@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize("inference", [False, True], ids=["no_grad", "inference"])
def test_map_threads_computes_items_at_the_same_time_with_one_thread_each(inference: bool) -> None:
    both = threading.Barrier(2, timeout=60)

    def square(i: int) -> tuple[int, int, bool, bool]:
        both.wait()  # passed only if two items are computed at the same time
        total[i] += i**2
        return i, torch.get_num_threads(), torch.is_grad_enabled(), torch.is_inference_mode_enabled()

    with torch.inference_mode(inference):
        total = torch.zeros(4)
        results = list(map_threads(square, range(4)))
    assert results == [(i, 1, False, inference) for i in range(4)]
    assert total.tolist() == [0, 1, 4, 9]
    assert torch.get_num_threads() == 2


@pytest.mark.usefixtures("two_threads")
def test_map_threads_computes_few_items_one_by_one() -> None:
    caller = threading.get_ident()
    results = map_threads(lambda i: (i, threading.get_ident() == caller, torch.get_num_threads()), range(3))
    assert list(results) == [(i, True, 2) for i in range(3)]


@pytest.mark.usefixtures("two_threads")
def test_map_threads_raises_the_error_of_an_item_and_restores_the_number() -> None:
    with pytest.raises(ZeroDivisionError):
        list(map_threads(lambda i: 1 // i, range(8)))
    assert torch.get_num_threads() == 2
