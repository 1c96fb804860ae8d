"""Step time of two processes with one thread each, relative to one process with two threads, and where it goes.

    OMP_NUM_THREADS=1 OMP_WAIT_POLICY=PASSIVE torchrun --standalone --nproc-per-node 2 benchmarks/processes.py

Also the time of the consensus in the first process with two threads, relative to one view in each process.

Both are measured in turns within the same processes, so that other load affects them alike. Times are medians over the
rounds; "waiting and transfer" includes waiting for the slower process.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from cgmcr2._device import choose_precision
from cgmcr2.consensus.ensemble import consensus_partition, neighbourhood
from cgmcr2.consensus.views import linear_views, view_neighbours
from cgmcr2.distributed import ONE_PROCESS, Group, process_group
from cgmcr2.training import Settings, resolve
from cgmcr2.training.batches import Batches
from cgmcr2.training.loop import _cluster_module, _guide
from cgmcr2.training.neighbour_graph import NeighbourGraph
from cgmcr2.training.precompute import Precomputed
from cgmcr2.training.schedule import Schedule
from cgmcr2.training.state import TrainingState
from cgmcr2.training.step import TrainingStep

N, D = 20_000, 768
CPU = torch.device("cpu")


class Timed:
    """Adds up the seconds spent in operations between processes."""

    def __init__(self, group: Group) -> None:
        self.group, self.seconds = group, 0.0

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self.group, name)
        return self._timed(attribute) if name in ("gather", "sum", "sum_gradients") else attribute

    def _timed(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            start = time.perf_counter()
            result = function(*args, **options)
            self.seconds += time.perf_counter() - start
            return result

        return call


def inputs(settings: Settings, k: int, rng: np.random.Generator) -> Precomputed:
    """Random inputs of the right shapes; the time of a step does not depend on their values."""
    if not settings.projection:
        return Precomputed()
    matrix = torch.from_numpy(np.linalg.qr(rng.standard_normal((D, settings.projection)))[0]).float()
    neighbours = rng.integers(N, size=(N, 2 * neighbourhood(N, k)))
    return Precomputed(torch.zeros(D), matrix, matrix, 0, neighbours, rng.integers(k, size=N))


def measure(preset: Any, k: int, group: Group, steps: int, rounds: int, overrides: dict[str, Any]) -> None:
    rng = np.random.default_rng(0)
    settings = resolve(preset, N, k, D, overrides)
    schedule, precomputed = Schedule(settings, N), inputs(settings, k, rng)
    state = TrainingState.create(settings, D, k, settings.s, precomputed, 0, CPU)
    with torch.no_grad():
        state.network.cluster_out.weight.mul_(30)  # memberships as concentrated as in a trained network
    dtype = choose_precision("auto", CPU, settings.hidden_dim)
    X = torch.from_numpy(rng.standard_normal((N, settings.projection or D), dtype=np.float32))
    batches = Batches(N, schedule.steps_per_epoch, 0, neighbours=precomputed.neighbours)
    graph = NeighbourGraph(precomputed.neighbours) if precomputed.neighbours is not None else None
    guide, head = _guide(settings, schedule, precomputed, CPU), _cluster_module(settings, k, schedule, 0, CPU)

    def run(members: Any) -> float:
        state.step = schedule.warmup_steps  # fine-tuning has all terms
        step = TrainingStep(settings, schedule, head, guide, graph, CPU, dtype, members)
        start = time.perf_counter()
        for _ in range(steps):
            rows = batches.rows(state.step)
            step(state, X[torch.from_numpy(rows[members.part(len(rows))])], rows)
        return (time.perf_counter() - start) / steps

    def loss() -> float:
        rows = batches.rows(state.step)
        Z = torch.randn(len(rows), settings.embedding_dim, requires_grad=True)
        Pi = torch.randn(settings.n_heads, len(rows), k).mul(10).softmax(-1).requires_grad_()
        A = graph.edges(rows, CPU) if graph is not None else None
        start = time.perf_counter()
        for _ in range(steps):
            terms = state.objective(Z, Pi, A=A)
            terms.total.mean().backward()
        return (time.perf_counter() - start) / steps

    def alone() -> tuple[float, float]:
        return run(ONE_PROCESS), loss()

    together, one, loss_1, loss_2, transfer = [], [], [], [], []
    for _ in range(rounds):
        step_seconds, loss_seconds = group.on_first(alone)  # with the threads of both
        one.append(step_seconds)
        loss_2.append(loss_seconds)
        group.sum(torch.zeros(1))
        timed = Timed(group)
        together.append(run(timed))
        transfer.append(timed.seconds / steps)
        loss_1.append(loss())
    if group.rank == 0:
        ms = {name: 1e3 * statistics.median(values) for name, values in locals().items() if isinstance(values, list)}
        ratio = statistics.median(a / b for a, b in zip(together, one, strict=True))
        print(
            f"{preset}, k {k}, width {settings.hidden_dim}, {dtype}: one process {ms['one']:.1f} ms, "
            f"{group.size} processes {ms['together']:.1f} ms, ratio {ratio:.2f}; "
            f"loss {ms['loss_2']:.1f} ms with all threads, {ms['loss_1']:.1f} ms with one; "
            f"waiting and transfer {ms['transfer']:.1f} ms",
            flush=True,
        )


def measure_consensus(n: int, k: int, group: Group, rounds: int) -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((k, D))[rng.integers(k, size=n)] + rng.standard_normal((n, D))
    source = X.astype(np.float32)
    views = linear_views(source, 256, 0)
    nearest = view_neighbours(source, [views], 2 * neighbourhood(n, k), 0)
    unit = views.unit(torch.from_numpy(source))
    whole, parts = [], []
    for _ in range(rounds):
        start = time.perf_counter()
        group.on_first(lambda: consensus_partition(unit, nearest, k, 0))
        whole.append(time.perf_counter() - start)
        start = time.perf_counter()
        mine = slice(group.rank, group.rank + 1)
        consensus_partition(unit[mine], nearest[mine], k, 0)
        group.sum(torch.zeros(n))
        parts.append(time.perf_counter() - start)
    if group.rank == 0:
        ratio = statistics.median(a / b for a, b in zip(whole, parts, strict=True))
        print(
            f"consensus, n {n}, k {k}: first process {statistics.median(whole):.1f} s, "
            f"one view per process {statistics.median(parts):.1f} s, ratio {ratio:.2f}",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    with process_group() as group:
        measure_consensus(2000, 10, group, options.rounds)
        for preset, k, overrides in (
            ("auto", 10, {}),
            ("auto", 1000, {}),
            ("paper", 10, {"hidden_dim": 1024}),
            ("paper", 10, {}),
        ):
            measure(preset, k, group, options.steps, options.rounds, overrides)


if __name__ == "__main__":
    main()
