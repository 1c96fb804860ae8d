"""How often ``-k auto`` says that there are no groups: on data without groups, and on classes of real data.

    python benchmarks/noise.py noise                             # every generator and size, 10 draws each
    python benchmarks/noise.py noise --kinds Gaussian uniform "permuted columns" --sizes 60x8 --draws 40
    python benchmarks/noise.py real                              # classes of the shared feature files
    python benchmarks/noise.py blobs

Labels are used only to draw classes and to judge the chosen k. Of classes, a draw that is not clear because distant
numbers of clusters score the same counts as not clear. Seeds from 1000 on were not used to develop the rule.
"""

from __future__ import annotations

import argparse
import math
from collections import defaultdict
from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt

from accuracy import SHARED, load
from cgmcr2.consensus.choose_k import Choice, choose_k
from cgmcr2.experiments.formats import markdown_table

Array = npt.NDArray[np.float32]
Generator = Callable[[int, int, np.random.Generator], npt.NDArray[np.floating]]
SIZES = ("60x8", "200x16", "500x64", "500x1280", "2000x128", "5000x512")
ROWS = (60, 100, 200, 500)
SETS = (
    "digits",
    *sorted(
        path.stem for path in SHARED.glob("*-vit*.npz") if "imagenet1k" not in path.stem and "nouns" not in path.stem
    ),
)


def decaying(n: int, D: int, rng: np.random.Generator) -> npt.NDArray[np.floating]:
    """Gaussian rows whose standard deviations fall as 1 / sqrt(j)."""
    return rng.standard_normal((n, D)) / np.sqrt(np.arange(1, D + 1))


def steep(n: int, D: int, rng: np.random.Generator) -> npt.NDArray[np.floating]:
    """Gaussian rows whose standard deviations fall as 1 / j."""
    return rng.standard_normal((n, D)) / np.arange(1, D + 1)


def low_rank(n: int, D: int, rng: np.random.Generator) -> npt.NDArray[np.floating]:
    """Gaussian rows near a subspace of dimension D / 4, at most 64."""
    rank = max(4, min(64, D // 4))
    return decaying(n, rank, rng) @ rng.standard_normal((rank, D)) / math.sqrt(rank) + 0.1 * rng.standard_normal((n, D))


def heavy_tailed(n: int, D: int, rng: np.random.Generator) -> npt.NDArray[np.floating]:
    """Multivariate t with 3 degrees of freedom and a decaying spectrum."""
    return decaying(n, D, rng) / np.sqrt(rng.chisquare(3, (n, 1)) / 3)


def real_columns(n: int, D: int, rng: np.random.Generator) -> Array:
    """D columns and n rows of real features, drawn with replacement if there are too few rows."""
    X = load(["digits" if D <= 16 else "cifar100-efficientnet-lite0"]).popitem()[1].X
    X = X[:, X.std(0) > 0.5 * X.std(0).mean()]
    return X[rng.choice(len(X), n, replace=n > len(X))][:, rng.choice(X.shape[1], min(D, X.shape[1]), replace=False)]


def permuted(n: int, D: int, rng: np.random.Generator) -> Array:
    """Real features with each column permuted."""
    return rng.permuted(real_columns(n, D, rng), axis=0)


def real_covariance(n: int, D: int, rng: np.random.Generator) -> npt.NDArray[np.floating]:
    """Gaussian rows with the mean and covariance of real features."""
    X = real_columns(n, D, rng)
    mean = X.mean(0)
    return mean + rng.standard_normal((n, n)) @ (X - mean) / math.sqrt(n)


def swiss_roll(n: int, D: int, rng: np.random.Generator) -> npt.NDArray[np.floating]:
    """A Swiss roll, mapped linearly to D columns, with a little noise."""
    t = 1.5 * np.pi * (1 + 2 * rng.random(n))
    roll = np.stack([t * np.cos(t), 10 * rng.random(n), t * np.sin(t)], axis=1)
    return roll @ rng.standard_normal((3, D)) + 0.05 * rng.standard_normal((n, D))


def surface(n: int, D: int, rng: np.random.Generator) -> npt.NDArray[np.floating]:
    """A smooth, curved surface of two dimensions: cosines of random projections."""
    return np.cos(3 * rng.random((n, 2)) @ rng.standard_normal((2, D)) + 2 * np.pi * rng.random(D))


NOISE: dict[str, Generator] = {
    "Gaussian": lambda n, D, rng: rng.standard_normal((n, D)),
    "Gaussian, decaying": decaying,
    "Gaussian, steep": steep,
    "Gaussian, low rank": low_rank,
    "Gaussian, real covariance": real_covariance,
    "uniform": lambda n, D, rng: rng.random((n, D)),
    "uniform, centred": lambda n, D, rng: rng.random((n, D)) - 0.5,
    "t": heavy_tailed,
    "t, independent columns": lambda n, D, rng: rng.standard_t(3, (n, D)),
    "permuted columns": permuted,
    "Swiss roll": swiss_roll,
    "curved surface": surface,
}


def noise_draws(kinds: list[str], sizes: list[str], seeds: range) -> Iterator[tuple[str, str, Array, int]]:
    """(generator, size, rows, seed) of each draw without groups."""
    for size in sizes:
        n, D = map(int, size.split("x"))
        for seed in seeds:
            for name in kinds:
                yield name, size, NOISE[name](n, D, np.random.default_rng([seed, n, D])).astype(np.float32), seed


def class_draws(sets: list[str], rows: list[int], seeds: range) -> Iterator[tuple[str, int, int, Array, int]]:
    """(set, n, k, rows, seed): n rows of 3 to 10 random classes; at least two rows of each are expected."""
    for name in sets:
        one = load([name]).popitem()[1]
        X, y = np.concatenate([one.X, one.X_test]), np.concatenate([one.y, one.y_test])
        for n in rows:
            for seed in seeds:
                rng = np.random.default_rng([seed, n])
                k = min(int(rng.integers(3, 11)), len(np.unique(y)))
                members = np.flatnonzero(np.isin(y, rng.choice(np.unique(y), k, replace=False)))
                yield name, n, k, X[rng.choice(members, min(n, len(members)), replace=False)], seed


def blob_draws(seeds: range) -> Iterator[tuple[str, int, int, Array, int]]:
    """(name, n, k, rows, seed): Gaussian groups whose centres have standard deviations of 1, 1.5 and 2.5."""
    for spread in (1.0, 1.5, 2.5):
        for n, D, k in ((60, 8, 2), (60, 8, 4), (60, 32, 5), (200, 16, 2), (200, 16, 6), (500, 64, 10)):
            for seed in seeds:
                rng = np.random.default_rng([seed, n, k])
                X = spread * rng.standard_normal((k, D))[rng.integers(k, size=n)] + rng.standard_normal((n, D))
                yield f"spread {spread}, {n} x {D}, k {k}", n, k, X.astype(np.float32), seed


def print_noise(kinds: list[str], sizes: list[str], seeds: range, verbose: bool) -> None:
    noise: dict[tuple[str, str], list[bool]] = defaultdict(list)
    for name, size, X, seed in noise_draws(kinds, sizes, seeds):
        choice = choose_k(X, seed=seed)
        noise[name, size].append(choice.noise)
        if verbose or not choice.noise:
            print(f"{name}, {size}, seed {seed}: {choice.chosen}, {choice.verdict}", flush=True)
    rows = [[name, *(_count(noise[name, size]) for size in sizes)] for name in kinds]
    rows.append(["all", *(_count([c for name in kinds for c in noise[name, size]]) for size in sizes)])
    print(markdown_table(["called noise", *sizes], rows))


def print_groups(draws: Iterator[tuple[str, int, int, Array, int]], by: str, verbose: bool) -> None:
    records: dict[str, list[tuple[int, Choice]]] = defaultdict(list)
    for name, n, k, X, seed in draws:
        choice = choose_k(X, seed=seed)
        records[name if by == "name" else f"{n} rows"].append((k, choice))
        if verbose:
            print(f"{name}, {n} rows, k {k}, seed {seed}: {choice.chosen}, {choice.verdict}", flush=True)
    rows = []
    for key, pairs in records.items():
        errors = {c: [abs(math.log2(p.chosen / k)) for k, p in pairs if p.clear == c] for c in (True, False)}
        cells = [_count([p.clear for _, p in pairs])]
        for values in errors.values():
            within = [_count([e <= math.log2(limit) + 1e-9 for e in values]) for limit in (1.25, 2)]
            cells += [f"{np.mean(values):.2f}" if values else "-", *within]
        rows.append([key, *cells])
    heads = [f"{c}: {what}" for c in ("clear", "not clear") for what in ("mean log2 error", "within 25 %", "factor 2")]
    print(markdown_table([by, "called clear", *heads], rows))


def _count(values: list[bool]) -> str:
    return f"{sum(values)} of {len(values)}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("noise", "real", "blobs"))
    parser.add_argument("--sizes", nargs="+", default=list(SIZES), metavar="nxD")
    parser.add_argument("--kinds", nargs="+", default=list(NOISE), choices=list(NOISE), metavar="KIND")
    parser.add_argument("--sets", nargs="+", default=list(SETS))
    parser.add_argument("--rows", nargs="+", type=int, default=list(ROWS))
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--first-seed", type=int, default=1000)
    parser.add_argument("--verbose", action="store_true", help="print every choice")
    options = parser.parse_args()
    seeds = range(options.first_seed, options.first_seed + options.draws)
    if options.what == "noise":
        print_noise(options.kinds, options.sizes, seeds, options.verbose)
    elif options.what == "real":
        print_groups(class_draws(options.sets, options.rows, seeds), "rows", options.verbose)
    else:
        print_groups(blob_draws(seeds), "name", options.verbose)


if __name__ == "__main__":
    main()
