"""Whether spectral clustering and EnSC stay within their bounds, and what a step of each cluster module costs.

    python benchmarks/baselines_speed.py                                # spectral, ensc, modules on made-up rows
    python benchmarks/baselines_speed.py spectral --features FILE.npz   # rows of the file, repeated and disturbed

``spectral``: 50,000 rows; peak memory beside that of an n x n matrix; time at 5,000 rows beside scikit-learn's
spectral clustering of the same neighbours. ``ensc``: 10,000 rows; time at 500 rows beside scikit-learn's elastic net on
all other rows. ``modules``: the cluster head's own part of a step, forward and backward, beside k-means, spectral
clustering and EnSC of the same batch. Each in a process of its own, with one thread, in seconds of processor time: the
machine may be shared.
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
from cgmcr2.training.cluster_modules import cluster

Array = np.ndarray


def rows(n: int, features: str | None, k: int = 100, D: int = 512) -> Array:
    """(n, D) unit rows: k subspaces of 8 dimensions in noise, or a file's rows, repeated with 5 % of noise."""
    random = np.random.default_rng(0)
    if features:
        given = np.load(features)["features"].astype(np.float32)
        X = unit_rows(given[np.arange(n) % len(given)])
        noise = random.standard_normal(X.shape, dtype=np.float32)
        return unit_rows(X + 0.05 * unit_rows(noise)).astype(np.float32)
    bases = random.standard_normal((k, 8, D)).astype(np.float32)
    codes = (1 + 0.5 * random.standard_normal((n, 8))).astype(np.float32)
    X = unit_rows(np.einsum("nb,nbd->nd", codes, bases[random.integers(k, size=n)]))
    return unit_rows(X + 0.3 * unit_rows(random.standard_normal((n, D)))).astype(np.float32)


def seconds(run: Callable[[], object], repeats: int = 1) -> float:
    """Of processor time, the least of ``repeats``."""
    taken = []
    for _ in range(repeats):
        start = time.process_time()
        run()
        taken.append(time.process_time() - start)
    return min(taken)


def spectral(features: str | None) -> dict[str, float]:
    n, k = 50_000, 100
    X = rows(n, features)
    own = seconds(lambda: make("spectral", k).fit(X))
    memory = peak_memory() or float("nan")
    small = X[:5_000]
    peer = SpectralClustering(k, affinity="nearest_neighbors", n_neighbors=11, n_init=10, random_state=0)
    return {
        "seconds of 50,000 rows": own,
        "peak memory, MB": memory,
        "of them the rows, MB": X.nbytes / 2**20,
        "an n x n matrix, MB": 4 * n * n / 2**20,
        "seconds of 5,000 rows": seconds(lambda: make("spectral", k).fit(small)),
        "the same, scikit-learn": seconds(lambda: peer.fit(small)),
    }


def ensc(features: str | None) -> dict[str, float]:
    X = rows(10_000, features)
    own = seconds(lambda: make("ensc", 100).fit(X))
    memory = peak_memory() or float("nan")
    small, tau, beta = X[:500], 0.9, 10.0

    def whole() -> None:
        for j in range(len(small)):
            others = np.delete(small, j, axis=0).T.astype(np.float64)  # (D, n - 1)
            y = small[j].astype(np.float64)
            weight = beta * tau / np.abs(others.T @ y).max()
            net = ElasticNet(1 / (weight * len(y)), l1_ratio=tau, fit_intercept=False, tol=1e-3, max_iter=2000)
            net.fit(others, y)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        peer = seconds(whole)
    return {
        "seconds of 10,000 rows": own,
        "peak memory, MB": memory,
        "seconds of the coefficients of 500 rows": seconds(lambda: self_expression(small, tau, beta)),
        "the same, scikit-learn": peer,
    }


def modules(features: str | None) -> dict[str, float]:
    """At n 2048, k 100, d 128: the cluster head and its cut, at the paper's width and at that of ``auto``."""
    n, k, d = 2048, 100, 128
    X = rows(n, features)
    Z = unit_rows(X @ np.linalg.qr(np.random.default_rng(0).standard_normal((X.shape[1], d)))[0]).astype(np.float32)
    objective, found = CgMCR2Objective(0.5, 5.0, 20), {}
    A = objective.graph(torch.from_numpy(Z))
    for width in (4096, 512, 256):
        network = Network(NetworkConfig(X.shape[1], k, width, d))
        T = torch.rand(n, width, requires_grad=True)
        hidden = torch.nn.Linear(width, width)

        def step(T: torch.Tensor = T, hidden: torch.nn.Linear = hidden, network: Network = network) -> None:
            Pi = gumbel_softmax(network.cluster_out(hidden(T).relu().unsqueeze(0)))
            objective(torch.from_numpy(Z), Pi, use_rate=False, use_cluster_rate=False, A=A).total.sum().backward()

        step()
        found[f"cluster head of width {width}, with its cut"] = seconds(step, 5)
    for module in ("k-means", "spectral", "ensc"):
        found[module] = seconds(lambda module=module: cluster(Z, k, module, 20, 0), 2)
    return found


BARS = {"spectral": spectral, "ensc": ensc, "modules": modules}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bars", nargs="*", choices=[[], *BARS], default=[])
    parser.add_argument("--features", help="an .npz whose rows are taken")
    parser.add_argument("--alone", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    for name in arguments.bars or list(BARS):
        if arguments.alone:
            print(json.dumps(BARS[name](arguments.features)))
            return
        more = ["--features", arguments.features] if arguments.features else []
        done = subprocess.run([sys.executable, __file__, name, "--alone", *more], capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(done.stderr)
        print(name)
        for what, value in json.loads(done.stdout.splitlines()[-1]).items():
            print(f"  {what:<50} {value:>12,.3f}", flush=True)


if __name__ == "__main__":
    main()
