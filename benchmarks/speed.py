"""Time of training and prediction, as ratios to their lower bounds in the same run.

    python benchmarks/speed.py                 # all benchmarks
    python benchmarks/speed.py step predict    # some of them

``step``: a training step relative to the network alone, and the network relative to its flops at the matmul peak.
``predict``: prediction relative to its flops at the matmul peak. ``stream``: training from disk relative to training
from memory. ``growth``: scaling with rows and with clusters.
``benchmarks/rate_speed.py`` measures the cluster-wise coding rate. Candidates are interleaved and the minimum over
several repeats counts, because the machine may be shared.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from cgmcr2 import CgMCR2
from cgmcr2._device import autocast, choose_precision
from cgmcr2.model import Network, NetworkConfig, gumbel_softmax
from cgmcr2.objectives import CgMCR2Objective

CPU = torch.device("cpu")
SETTINGS = {  # name: n, k, D, h, d, s, target of step / network
    "CIFAR-10": (512, 10, 768, 4096, 128, 10, 1.25),
    "CIFAR-100": (2048, 100, 768, 4096, 128, 20, 1.3),
    "ImageNet": (3000, 1000, 768, 4096, 256, 3, 1.5),
}


def fastest(candidates: dict[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """Return the minimum time of each candidate over ``repeats`` interleaved calls, after a warm-up call."""
    seconds = dict.fromkeys(candidates, float("inf"))
    for turn in range(repeats + 1):
        for name, run in candidates.items():
            start = time.perf_counter()
            run()
            if turn:
                seconds[name] = min(seconds[name], time.perf_counter() - start)
    return seconds


def matmul(dtype: torch.dtype, size: int = 3072) -> tuple[Callable[[], object], float]:
    """Return a large matrix product and its number of flops."""
    a, b = torch.randn(size, size).to(dtype), torch.randn(size, size).to(dtype)
    return lambda: a @ b, 2.0 * size**3


def late_logits(n: int, k: int) -> torch.Tensor:
    """Return logits like those of a trained head: 46 nats below the largest, standard deviation 18 (on CIFAR-100)."""
    return 46.0 * torch.nn.functional.one_hot(torch.randint(k, (n,)), k) + 18 * torch.randn(n, k)


def step() -> None:
    """A step at the paper's settings, with memberships as at the end of training."""
    for name, (n, k, D, h, d, s, target) in SETTINGS.items():
        for dtype in {torch.float32, choose_precision("auto", CPU, h)}:
            network = Network(NetworkConfig(D, k, h, d)).train()
            optimizer = torch.optim.Adam(network.parameters(), lr=1e-4, fused=True)
            objective = CgMCR2Objective(0.5, 5.0, s)
            X = torch.randn(n, D)
            late = late_logits(n, k)

            def forward(
                dtype: torch.dtype = dtype, network: Network = network, X: torch.Tensor = X
            ) -> tuple[torch.Tensor, torch.Tensor]:
                with autocast(CPU, dtype):
                    Z, logits = network(X)
                return Z.float(), logits.float()

            def update(loss: torch.Tensor, optimizer: torch.optim.Adam = optimizer) -> None:
                optimizer.zero_grad(set_to_none=True)
                loss.backward()
                optimizer.step()

            def bare() -> None:
                Z, logits = forward()
                update(Z.mean() + logits.mean())

            def whole(objective: CgMCR2Objective = objective, late: torch.Tensor = late) -> None:
                Z, logits = forward()
                update(objective(Z, gumbel_softmax(logits + late)).total.mean())

            product, flops = matmul(dtype)
            seconds = fastest({"bare": bare, "whole": whole, "matmul": product}, 5 if k < 1000 else 3)
            limit = 6 * n * (D * h + 2 * h * h + h * d + h * k) / (flops / seconds["matmul"])
            kind = str(dtype).removeprefix("torch.")
            print(
                f"step {name} ({kind}, n {n}, k {k}): whole {seconds['whole']:.2f} s / bare {seconds['bare']:.2f} s = "
                f"{seconds['whole'] / seconds['bare']:.2f} (target {target}); bare / flops at peak {limit:.2f} s = "
                f"{seconds['bare'] / limit:.2f} (target 1.3)",
                flush=True,
            )


def predict() -> None:
    """Prediction of 100,000 rows with the paper's network, relative to its flops at the matmul peak."""
    n, D, k = 100_000, 768, 10
    X = np.random.default_rng(0).standard_normal((n, D), dtype=np.float32)
    settings = {"warmup_epochs": 1, "finetune_epochs": 0, "batch_size": 512}
    model = CgMCR2(k, preset="paper", settings=settings).fit(X[:1024])
    c = model.network_.config
    product, flops = matmul(torch.float32)
    seconds = fastest({"predict": lambda: model.predict(X), "matmul": product}, 2)
    limit = (
        2
        * n
        * (D * c.hidden_dim + 2 * c.hidden_dim**2 + c.hidden_dim * (c.embedding_dim + k))
        / (flops / seconds["matmul"])
    )
    print(
        f"predict {n:,} rows: {seconds['predict']:.1f} s / matmul limit {limit:.1f} s = "
        f"{seconds['predict'] / limit:.2f} (target 1.2)"
    )


def _epoch_seconds(X: np.ndarray, batch: int = 2048, epochs: float = 1.0) -> float:  # type: ignore[type-arg]
    """Return the seconds of an epoch of fine-tuning a narrow network."""
    from cgmcr2.training import resolve, train

    settings = resolve(
        "paper",
        len(X),
        10,
        X.shape[1],
        {"hidden_dim": 256, "batch_size": batch, "warmup_epochs": 0, "finetune_epochs": epochs},
    )
    start = time.perf_counter()
    train(X, 10, settings)
    return time.perf_counter() - start


def stream(rows: int = 1_281_167, width: int = 768) -> None:
    """An epoch from a float16 file on disk relative to one from memory, and the peak memory of the former."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "features.npy"
        file = np.lib.format.open_memmap(path, "w+", np.float16, (rows, width))
        rng = np.random.default_rng(0)
        for start in range(0, rows, 65536):
            file[start : start + 65536] = rng.standard_normal((min(65536, rows - start), width), dtype=np.float32)
        file.flush()
        del file
        out = subprocess.run(
            [sys.executable, __file__, "--stream", str(path)], capture_output=True, text=True, check=True
        ).stdout
        disk, memory = map(float, out.split())
        inside = _epoch_seconds(np.load(path))
    print(
        f"stream {rows:,} x {width}: {disk:.0f} s from disk / {inside:.0f} s from memory = "
        f"{disk / inside:.2f} (target 1.1); resident {memory:.2f} GB (target 2)"
    )


def growth() -> None:
    """Slope of log time over log size: an epoch over rows, and a step at a fixed batch size over clusters."""
    sizes = [10_000, 100_000, 1_000_000]
    X = np.random.default_rng(0).standard_normal((sizes[-1], 64), dtype=np.float32)
    _epoch_seconds(X[:10_000])
    seconds = [min(_epoch_seconds(X[:n]) for _ in range(3 if n < 1_000_000 else 1)) for n in sizes]
    slope = np.polyfit(np.log(sizes), np.log(seconds), 1)[0]
    print(f"growth in rows {sizes}: {[round(s, 2) for s in seconds]} s, slope {slope:.3f} (target 0.95 to 1.05)")
    clusters, times = [10, 100, 1000], []
    for k in clusters:
        Z, logits = torch.randn(2048, 128, requires_grad=True), torch.randn(2048, k)
        logits += late_logits(2048, k)
        logits.requires_grad_()
        objective = CgMCR2Objective(0.5, 5.0, 20)
        run = lambda Z=Z, logits=logits, objective=objective: objective(Z, gumbel_softmax(logits)).total.backward()  # noqa: E731
        times.append(fastest({"step": run}, 5)["step"])
    slope = np.polyfit(np.log(clusters), np.log(times), 1)[0]
    print(f"growth in clusters {clusters}: {[round(t, 3) for t in times]} s, slope {slope:.2f} (target at most 1)")


def peak_gigabytes() -> float:
    """Return the peak memory of this process; getrusage would include its parent's."""
    return int(re.findall(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())[0]) / 1e6


def main() -> None:
    benchmarks = {"step": step, "predict": predict, "stream": stream, "growth": growth}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"{', '.join(benchmarks)}; default: all")
    parser.add_argument("--stream", help=argparse.SUPPRESS)  # the process whose memory is measured
    arguments = parser.parse_args()
    if arguments.stream:
        seconds = _epoch_seconds(np.load(arguments.stream, mmap_mode="r"))
        print(seconds, peak_gigabytes())
        return
    unknown = set(arguments.names) - benchmarks.keys()
    if unknown:
        parser.error(f"there is no benchmark {sorted(unknown)[0]!r}; choose from {', '.join(benchmarks)}")
    for name in arguments.names or benchmarks:
        benchmarks[name]()


if __name__ == "__main__":
    main()
