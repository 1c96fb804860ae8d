"""Time and memory of spectral clustering and EnSC, and the cost of a step of each cluster module.

    python benchmarks/baselines_speed.py                                # spectral, ensc and modules on synthetic rows
    python benchmarks/baselines_speed.py spectral --features FILE.npz   # rows of the file, repeated with noise

``spectral``: 50,000 rows; peak memory compared with an n x n matrix; time at 5,000 rows compared with scikit-learn's
spectral clustering of the same graph. ``ensc``: 10,000 rows; time at 500 rows compared with scikit-learn's elastic net
on all other rows. ``modules``: forward and backward pass of the cluster head, compared with k-means, spectral
clustering and EnSC of the same batch. Each benchmark runs in a process of its own with one thread and reports CPU
seconds, because the machine may be shared.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
import warnings
from collections.abc import Callable

import numpy as np
import torch
from sklearn.cluster import SpectralClustering
from sklearn.linear_model import ElasticNet

from cgmcr2._arrays import unit_rows
from cgmcr2.baselines import make
from cgmcr2.experiments.job import peak_memory
from cgmcr2.graphs.self_expression import self_expression
from cgmcr2.model import Network, NetworkConfig, gumbel_softmax
from cgmcr2.objectives import CgMCR2Objective
from cgmcr2.training.cluster_modules import cluster_rows

Array = np.ndarray


def rows(n: int, features: str | None, k: int = 100, D: int = 512) -> Array:
    """Return unit rows (n, D): k noisy subspaces of 8 dimensions, or the rows of a file, repeated with 5 % noise."""
    rng = np.random.default_rng(0)
    if features:
        stored = np.load(features)["features"].astype(np.float32)
        X = unit_rows(stored[np.arange(n) % len(stored)])
        noise = rng.standard_normal(X.shape, dtype=np.float32)
        return unit_rows(X + 0.05 * unit_rows(noise)).astype(np.float32)
    bases = rng.standard_normal((k, 8, D)).astype(np.float32)
    codes = (1 + 0.5 * rng.standard_normal((n, 8))).astype(np.float32)
    X = unit_rows(np.einsum("nb,nbd->nd", codes, bases[rng.integers(k, size=n)]))
    return unit_rows(X + 0.3 * unit_rows(rng.standard_normal((n, D)))).astype(np.float32)


def seconds(run: Callable[[], object], repeats: int = 1) -> float:
    """Return the minimum CPU time over ``repeats`` calls."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        run()
        times.append(time.process_time() - start)
    return min(times)


def spectral(features: str | None) -> dict[str, float]:
    n, k = 50_000, 100
    X = rows(n, features)
    total = seconds(lambda: make("spectral", k).fit(X))
    memory = peak_memory() or float("nan")
    small = X[:5_000]
    peer = SpectralClustering(k, affinity="nearest_neighbors", n_neighbors=11, n_init=10, random_state=0)
    return {
        "seconds for 50,000 rows": total,
        "peak memory, MB": memory,
        "size of the rows, MB": X.nbytes / 2**20,
        "size of an n x n matrix, MB": 4 * n * n / 2**20,
        "seconds for 5,000 rows": seconds(lambda: make("spectral", k).fit(small)),
        "seconds of scikit-learn for the same": seconds(lambda: peer.fit(small)),
    }


def ensc(features: str | None) -> dict[str, float]:
    X = rows(10_000, features)
    total = seconds(lambda: make("ensc", 100).fit(X))
    memory = peak_memory() or float("nan")
    small, tau, beta = X[:500], 0.9, 10.0

    def fit_elastic_nets() -> None:
        for j in range(len(small)):
            others = np.delete(small, j, axis=0).T.astype(np.float64)  # (D, n - 1)
            y = small[j].astype(np.float64)
            weight = beta * tau / np.abs(others.T @ y).max()
            net = ElasticNet(1 / (weight * len(y)), l1_ratio=tau, fit_intercept=False, tol=1e-3, max_iter=2000)
            net.fit(others, y)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        peer = seconds(fit_elastic_nets)
    return {
        "seconds for 10,000 rows": total,
        "peak memory, MB": memory,
        "seconds for the coefficients of 500 rows": seconds(lambda: self_expression(small, tau, beta)),
        "seconds of scikit-learn for the same": peer,
    }


def modules(features: str | None) -> dict[str, float]:
    """Cluster head with its cut at n 2048, k 100, d 128, for the paper's width and those of ``auto``."""
    n, k, d = 2048, 100, 128
    X = rows(n, features)
    Z = unit_rows(X @ np.linalg.qr(np.random.default_rng(0).standard_normal((X.shape[1], d)))[0]).astype(np.float32)
    objective, times = CgMCR2Objective(0.5, 5.0, 20), {}
    A = objective.graph(torch.from_numpy(Z))
    for width in (4096, 512, 256):
        network = Network(NetworkConfig(X.shape[1], k, width, d))
        T = torch.rand(n, width, requires_grad=True)
        hidden = torch.nn.Linear(width, width)

        def step(T: torch.Tensor = T, hidden: torch.nn.Linear = hidden, network: Network = network) -> None:
            Pi = gumbel_softmax(network.cluster_out(hidden(T).relu().unsqueeze(0)))
            objective(torch.from_numpy(Z), Pi, use_rate=False, use_cluster_rate=False, A=A).total.sum().backward()

        step()
        times[f"cluster head of width {width}, with its cut"] = seconds(step, 5)
    for module in ("k-means", "spectral", "ensc"):
        times[module] = seconds(lambda module=module: cluster_rows(Z, k, module, 20, 0), 2)
    return times


BENCHMARKS = {"spectral": spectral, "ensc": ensc, "modules": modules}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("benchmarks", nargs="*", metavar="NAME", help=f"{', '.join(BENCHMARKS)}; default: all")
    parser.add_argument("--features", help="feature file (.npz) to take rows from")
    parser.add_argument("--alone", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    unknown = set(arguments.benchmarks) - BENCHMARKS.keys()
    if unknown:
        parser.error(f"there is no benchmark {sorted(unknown)[0]!r}; choose from {', '.join(BENCHMARKS)}")
    torch.set_num_threads(1)
    for name in arguments.benchmarks or list(BENCHMARKS):
        if arguments.alone:
            print(json.dumps(BENCHMARKS[name](arguments.features)))
            return
        options = ["--features", arguments.features] if arguments.features else []
        process = subprocess.run([sys.executable, __file__, name, "--alone", *options], capture_output=True, text=True)
        if process.returncode:
            raise SystemExit(process.stderr)
        print(name)
        for measure, value in json.loads(process.stdout.splitlines()[-1]).items():
            print(f"  {measure:<50} {value:>12,.3f}", flush=True)


if __name__ == "__main__":
    main()
