"""Run a function in several processes that form a gloo group."""

from __future__ import annotations

import multiprocessing
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist

TIMEOUT = 1200  # seconds; on a busy machine, only a deadlock takes longer

Run = Callable[..., list[Any]]


@pytest.fixture(scope="session")
def context() -> Any:
    """Processes are forked from a server that has imported the package once."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["cgmcr2.runs"])
    return context


@pytest.fixture
def run(context: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """``run(size, function, *args)`` returns the results of ``function(*args)`` in ``size`` processes, in their order.

    The result of a process that was killed is None; that of one that failed is the exception.
    """
    monkeypatch.syspath_prepend(Path(__file__).parents[2])  # the processes import the test modules
    calls = 0

    def run(size: int, function: Callable[..., Any], *args: Any) -> list[Any]:
        nonlocal calls
        calls += 1
        folder = tmp_path / f"group-{calls}"
        folder.mkdir()
        processes = [
            context.Process(target=call, args=(folder, rank, size, function, args), daemon=True) for rank in range(size)
        ]
        for process in processes:
            process.start()
        for process in processes:
            process.join(TIMEOUT)
            assert process.exitcode is not None, "the processes wait for each other"
        results = [folder / f"result-{rank}" for rank in range(size)]
        return [pickle.loads(path.read_bytes()) if path.exists() else None for path in results]

    return run


def call(folder: Path, rank: int, size: int, function: Callable[..., Any], args: tuple[Any, ...]) -> None:
    """Join the group and write the result of ``function(*args)``, or its exception, to ``folder``."""
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder / 'store'}", rank=rank, world_size=size)
    try:
        result = function(*args)
    except Exception as error:
        result = error
    (folder / f"result-{rank}").write_bytes(pickle.dumps(result))
