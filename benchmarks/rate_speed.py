"""Time and memory of the cluster-wise coding rate, as ratios to its dense form in the same run.

    python benchmarks/rate_speed.py                # all settings
    python benchmarks/rate_speed.py ImageNet       # settings whose name contains this
    python benchmarks/rate_speed.py --busy         # on a busy machine: one thread, CPU time instead of wall time

Time is the minimum over several forward and backward passes, interleaved. Memory is the increase of the peak memory of
a separate process during the call (Linux only). Errors are given as ours / dense, relative to an exact float64
computation: of the value, and of the gradients with respect to Z and to the logits of Pi (relative to the largest
entry).

Memberships: ``early`` is the Gumbel-softmax of an untrained head; ``sparse`` has one large and three small entries per
row; ``late`` is a Gumbel-softmax with logits as in the fine-tuning on CIFAR-100 features (46 nats below the largest,
standard deviation 18).
"""

from __future__ import annotations

import argparse
import functools
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from cgmcr2.objectives import cluster_coding_rate

EPS = 0.5


class Setting(NamedTuple):
    """Rows n, clusters k, dimensions d, number of heads and kind of memberships."""

    name: str
    n: int
    k: int
    d: int
    heads: int
    kind: str


SETTINGS = [
    Setting("CIFAR-10", 512, 10, 128, 1, "early"),
    Setting("CIFAR-10", 512, 10, 128, 1, "late"),
    Setting("Flowers-102", 1600, 102, 128, 4, "early"),
    Setting("Flowers-102", 1600, 102, 128, 4, "late"),
    Setting("CIFAR-100", 2048, 100, 128, 1, "early"),
    Setting("CIFAR-100", 2048, 100, 128, 1, "late"),
    Setting("ImageNet", 3000, 1000, 256, 1, "early"),
    Setting("ImageNet", 3000, 1000, 256, 1, "late"),
    Setting("ImageNet", 3000, 1000, 256, 1, "sparse"),
]


def dense(Z: Tensor, Pi: Tensor, eps: float) -> Tensor:
    """The formula without optimisations: all k matrices at once, differentiated by autograd."""
    n, d = Z.shape
    sizes = Pi.sum(-2) + 1e-8
    weighted = Pi.mT.unsqueeze(-2) * Z.T  # (heads, k, d, n)
    M = torch.eye(d) + (d / (sizes * eps**2))[..., None, None] * (weighted @ Z)
    rates = 2 * torch.linalg.cholesky(M).diagonal(dim1=-2, dim2=-1).log().sum(-1)
    value: Tensor = (sizes / n * rates).sum(-1)
    return value


CANDIDATES: dict[str, Callable[..., Tensor]] = {"ours": cluster_coding_rate, "dense": dense}


def batch(setting: Setting) -> tuple[Tensor, Tensor]:
    """Return an embedding (n, d) around k directions, and memberships (heads, n, k)."""
    generator = torch.Generator().manual_seed(0)
    _, n, k, d, heads, kind = setting
    labels = torch.randint(k, (heads, n, 1), generator=generator)
    centres = functional.normalize(torch.randn(k, d, generator=generator))
    Z = functional.normalize(centres[labels[0, :, 0]] + 0.5 * d**-0.5 * torch.randn(n, d, generator=generator))
    if kind == "sparse":
        Pi = torch.zeros(heads, n, k).scatter_(-1, labels, 1.0)
        small = 10 ** (-1 - 3 * torch.rand(heads, n, 3, generator=generator))
        Pi.scatter_add_(-1, torch.randint(k, (heads, n, 3), generator=generator), small)
        return Z, Pi / Pi.sum(-1, keepdim=True)
    noise = torch.randn(heads, n, k, generator=generator)
    logits = 0.1 * noise if kind == "early" else (18 * noise - 46).clamp_(max=-1).scatter_(-1, labels, 0.0)
    uniform = torch.rand(heads, n, k, generator=generator).clamp_(1e-9, 1 - 1e-7)
    return Z, torch.softmax(logits - torch.log(-torch.log(uniform)), -1)


def value_and_gradients(rate: Callable[..., Tensor], Z: Tensor, Pi: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the value, and the gradients with respect to Z and to the logits of Pi."""
    Z, Pi = Z.clone().requires_grad_(), Pi.clone().requires_grad_()
    value = rate(Z, Pi, EPS)
    dZ, dPi = torch.autograd.grad(value.sum(), (Z, Pi))
    Pi = Pi.detach()
    return value.detach(), dZ, Pi * (dPi - (Pi * dPi).sum(-1, keepdim=True))


def peak_memory(name: str, setting: Setting) -> float:
    """Return the memory in MB that one call adds to a new process."""
    run = subprocess.run(
        [sys.executable, __file__, "--memory", name, json.dumps(setting)], capture_output=True, text=True, check=True
    )
    return float(run.stdout)


def added_memory(name: str, setting: Setting) -> float:
    """Return the memory in MB that one call adds to this process."""
    # a small call first: libraries allocate their own memory on first use
    value_and_gradients(CANDIDATES[name], *batch(Setting("", 64, 3, 16, 1, "early")))
    Z, Pi = batch(setting)
    Path("/proc/self/clear_refs").write_text("5")  # resets the peak
    before = status("VmHWM")
    value_and_gradients(CANDIDATES[name], Z, Pi)
    return (status("VmHWM") - before) / 1024


def status(field: str) -> int:
    """Return a field of /proc/self/status in kB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field))


def error(got: Tensor, want: Tensor) -> float:
    return ((got - want).abs().max() / want.abs().max()).item()


def compare(setting: Setting, repeats: int) -> str:
    Z, Pi = batch(setting)
    clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
    seconds = dict.fromkeys(CANDIDATES, float("inf"))
    results = {}
    for turn in range(repeats):
        for name in CANDIDATES:
            for _ in range(3 if name == "ours" and turn else 1):  # short runs need more repeats on a shared machine
                start = clock()
                results[name] = value_and_gradients(CANDIDATES[name], Z, Pi)
                seconds[name] = min(seconds[name], clock() - start)
    everything = functools.partial(cluster_coding_rate, tolerance=0)
    exact = value_and_gradients(everything, Z.double(), Pi.double())
    errors = [" / ".join(f"{error(results[name][i], exact[i]):.0e}" for name in CANDIDATES) for i in range(len(exact))]
    del results, exact
    memory = {name: peak_memory(name, setting) for name in CANDIDATES}
    return (
        f"| {setting.name} | {setting.n} | {setting.k} | {setting.d} | {setting.heads} | {setting.kind} "
        f"| {1e3 * seconds['ours']:.0f} ms | {seconds['dense'] / seconds['ours']:.1f} "
        f"| {memory['ours']:.0f} MB | {memory['dense'] / max(memory['ours'], 1.0):.1f} "
        f"| {' | '.join(errors)} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("name", nargs="?", default="", help="run only settings whose name contains this")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--busy", action="store_true", help="one thread, CPU time instead of wall time")
    parser.add_argument("--memory", nargs=2, metavar=("CANDIDATE", "SETTING"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.memory:
        candidate, setting = arguments.memory
        print(added_memory(candidate, Setting(*json.loads(setting))))
        return
    if arguments.busy:
        torch.set_num_threads(1)
    titles = ["setting", "n", "k", "d", "heads", "memberships", "time", "speed-up", "memory", "memory ratio"]
    titles += ["error of value", "of dZ", "of dlogits"]
    print("| " + " | ".join(titles) + " |\n" + "| --- " * len(titles) + "|")
    for setting in SETTINGS:
        if arguments.name.lower() in setting.name.lower():
            print(compare(setting, arguments.repeats), flush=True)


if __name__ == "__main__":
    main()
