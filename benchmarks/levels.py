"""Levels of ``-k auto``: the proposed number of clusters on random classes, and the quality of the levels.

    python benchmarks/levels.py propose --group check --draws 8     # error in log k and ARI, ours and the rivals
    python benchmarks/levels.py quality                             # ARI and NMI of the levels against fits at that k

``propose`` draws 2 to 100 random classes of a feature set (log-uniform, at most ``--rows`` rows) and compares the
proposed number with the number of classes. The constants of the choice were set on the sets of the group ``choose``.
ARI is that of a consensus at the proposed number for ours, silhouette, gap statistic and coding length (which choose
among k-means partitions), and of the method's own partition for HDBSCAN. HDBSCAN and the k-means of the rivals see the
32 leading principal components of unit rows. "Split and merge" is DeepDPM's inference without its network, on ten
components. EVoC runs if it is installed. Labels are used to draw classes and for scores only.

``quality`` fits ``CgMCR2`` at a number of clusters, builds the tree, and compares its levels with
``ConsensusClustering`` at the same numbers, on the same rows.
"""

from __future__ import annotations

import argparse
import importlib.util
import math
from collections import defaultdict
from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt
from scipy.special import gammaln, multigammaln
from sklearn.cluster import HDBSCAN, KMeans
from sklearn.decomposition import PCA
from sklearn.metrics import adjusted_rand_score, silhouette_score

from accuracy import load
from cgmcr2 import CgMCR2
from cgmcr2._arrays import unit_rows
from cgmcr2.consensus import ConsensusClustering
from cgmcr2.consensus.choose_k import candidate_grid, choose_k
from cgmcr2.consensus.levels import build_levels
from cgmcr2.evaluation import score_labels
from cgmcr2.experiments.formats import markdown_table

Array = npt.NDArray[np.float32]
Labels = npt.NDArray[np.int64]
Partitions = dict[int, Labels]  # by number of clusters
SETS = {
    "choose": (
        "digits",
        "aid-clip-vit-l14",
        "cifar10-efficientnet-lite0",
        "pets-clip-vit-b32",
        "caltech101-clip-vit-b32",
    ),
    "check": (
        "flowers102-clip-vit-b32",
        "dtd-clip-vit-b32",
        "imagenette-clip-vit-b32",
        "cifar10-dinov2-vits14",
        "tinyimagenet-dinov2-vits14",
        "sun397-clip-vit-b32",
        "cifar100-efficientnet-lite0:100",
    ),
}
QUALITY = {  # set: fitted number of clusters, levels
    "pets-clip-vit-b32": (24, (6, 12, 24, 37, 60)),
    "flowers102-clip-vit-b32": (60, (15, 30, 60, 102, 150)),
    "aid-clip-vit-l14": (10, (3, 5, 7, 10, 20)),
    "cifar10-efficientnet-lite0": (15, (3, 6, 10, 15, 30)),
}


def class_draws(sets: tuple[str, ...], seeds: range, rows: int) -> Iterator[tuple[str, int, Array, Labels]]:
    """(set, seed, features, classes) of each draw."""
    for name in sets:
        one = load([name.split(":")[0]])[name]
        X, y = np.concatenate([one.X, one.X_test]), np.concatenate([one.y, one.y_test])
        if name == "digits" or name.startswith("sun397"):  # both splits are the same rows; averages over crops
            X, y = one.X_test, one.y_test
        classes = np.unique(y)
        for seed in seeds:
            rng = np.random.default_rng([seed, len(y)])
            k = round(math.exp(rng.uniform(math.log(2), math.log(min(100, len(classes))))))
            members = np.flatnonzero(np.isin(y, rng.choice(classes, k, replace=False)))
            drawn = np.sort(rng.choice(members, min(rows, len(members)), replace=False))
            yield name, seed, X[drawn], np.unique(y[drawn], return_inverse=True)[1]


def kmeans_partitions(Y: Array, seed: int) -> Partitions:
    """k-means of ``Y (n, p)`` at each candidate number of clusters."""
    grid = [k for k in candidate_grid(len(Y), None) if k < len(Y) / 2]
    return {k: KMeans(k, n_init=2, random_state=seed).fit(Y).labels_ for k in grid}


def by_silhouette(Y: Array, partitions: Partitions, seed: int) -> int:
    return max(partitions, key=lambda k: silhouette_score(Y, partitions[k]))


def by_gap(Y: Array, partitions: Partitions, seed: int) -> int:
    """The gap statistic of Tibshirani et al. (2001), with two uniform references in the box of the components."""
    rng = np.random.default_rng(seed)
    boxes = [rng.uniform(Y.min(0), Y.max(0), Y.shape).astype(np.float32) for _ in range(2)]
    grid = sorted(partitions)
    logs = np.array(
        [
            [math.log(KMeans(k, n_init=1, random_state=seed).fit(B).inertia_) for B in boxes]
            for k in grid
        ]
    )  # fmt: skip
    gap = logs.mean(1) - [math.log(inertia(Y, partitions[k])) for k in grid]
    error = logs.std(1) * math.sqrt(1 + 1 / 2)
    fits = [k for i, k in enumerate(grid[:-1]) if gap[i] >= gap[i + 1] - error[i + 1]]
    return fits[0] if fits else grid[-1]


def by_coding_length(Y: Array, partitions: Partitions, seed: int, eps: float = 0.1) -> int:
    """The shortest code of the rows and their clusters, as in CPP (Chu et al., 2024)."""
    n, p = Y.shape

    def length(labels: Labels) -> float:
        total = 0.0
        for cluster in np.unique(labels):
            Z = Y[labels == cluster].astype(np.float64)
            rate = 2 * np.log(np.diag(np.linalg.cholesky(np.eye(p) + p / (len(Z) * eps**2) * Z.T @ Z))).sum()
            total += (len(Z) + p) / 2 * rate + len(Z) * math.log(n / len(Z))
        return total

    return min(partitions, key=lambda k: length(partitions[k]))


def split_and_merge(Y: Array, seed: int, *, start: int = 30, alpha: float = 10.0, rounds: int = 30) -> Labels:
    """Splits and merges of a Dirichlet process mixture of Gaussians, accepted as in DeepDPM (Ronen et al., 2022).

    Clusters are split by 2-means and merged with the nearest, if the Hastings ratio is above 1. Between them, k-means
    assigns the rows instead of DeepDPM's network. The prior is that of their code.
    """
    n, p = Y.shape
    nu, kappa, mean = p + 2.0, 1e-4, Y.mean(0)
    psi = 0.005 * np.diag(Y.std(0).astype(np.float64))
    log_psi = np.linalg.slogdet(psi)[1]

    def log_evidence(rows: Array) -> float:
        m, center = len(rows), rows.mean(0)
        shift = (center - mean)[:, None]
        scatter = psi + (rows - center).T @ (rows - center) + kappa * m / (kappa + m) * shift @ shift.T
        value = multigammaln((nu + m) / 2, p) - multigammaln(nu / 2, p) + nu / 2 * log_psi
        value += p / 2 * math.log(kappa / (kappa + m)) - m * p / 2 * math.log(math.pi)
        return float(value - (nu + m) / 2 * np.linalg.slogdet(scatter)[1] + gammaln(m))

    centers = KMeans(min(start, n // 4), n_init=2, random_state=seed).fit(Y).cluster_centers_
    for step in range(rounds):
        labels = KMeans(len(centers), init=centers, n_init=1).fit(Y).labels_ if len(centers) > 1 else np.zeros(n, int)
        clusters = [Y[labels == c] for c in np.unique(labels)]
        before = len(clusters)
        if step % 2 == 0:
            parts = []
            for rows in clusters:
                half = KMeans(2, n_init=2, random_state=seed).fit(rows).labels_ if len(rows) >= 4 else None
                pair = [] if half is None else [rows[half == side] for side in (0, 1)]
                gain = math.log(alpha) + sum(map(log_evidence, pair)) - log_evidence(rows) if pair else -1.0
                parts += pair if gain > 0 else [rows]
            clusters = parts
        else:
            for first in sorted(range(len(clusters)), key=lambda c: len(clusters[c])):
                others = [c for c in range(len(clusters)) if c != first and len(clusters[c])]
                if not len(clusters[first]) or not others:
                    continue
                near = min(others, key=lambda c: float(((clusters[c].mean(0) - clusters[first].mean(0)) ** 2).sum()))
                both = np.concatenate([clusters[first], clusters[near]])
                apart = math.log(alpha) + log_evidence(clusters[first]) + log_evidence(clusters[near])
                if log_evidence(both) > apart:
                    clusters[first], clusters[near] = both, both[:0]
            clusters = [rows for rows in clusters if len(rows)]
        centers = np.array([rows.mean(0) for rows in clusters])
        if step % 2 and len(clusters) == before:
            break
    return labels if len(centers) == 1 else KMeans(len(centers), init=centers, n_init=1).fit(Y).labels_


def inertia(Y: Array, labels: Labels) -> float:
    return float(sum(((Y[labels == c] - Y[labels == c].mean(0)) ** 2).sum() for c in np.unique(labels)))


def print_proposals(sets: tuple[str, ...], seeds: range, rows: int) -> None:
    rules: dict[str, Callable[[Array, Partitions, int], int]] = {
        "silhouette": by_silhouette,
        "gap statistic": by_gap,
        "coding length": by_coding_length,
    }
    results: dict[str, list[tuple[float, float]]] = defaultdict(list)
    if importlib.util.find_spec("evoc") is None:
        print("EVoC is not installed, so it is not compared.")
    for name, seed, X, y in class_draws(sets, seeds, rows):
        k, U = int(y.max()) + 1, unit_rows(X)
        Y = PCA(min(32, *U.shape), random_state=seed).fit_transform(U).astype(np.float32)
        partitions = kmeans_partitions(Y, seed)
        chosen = {rule: choose(Y, partitions, seed) for rule, choose in rules.items()}
        chosen["ours"] = choose_k(X, seed=seed).chosen
        fits = {m: ConsensusClustering(m, random_state=seed).fit(X).labels_ for m in set(chosen.values())}
        labels = {rule: fits[m] for rule, m in chosen.items()}
        labels["HDBSCAN"] = HDBSCAN(min_cluster_size=max(5, len(X) // 100), copy=True).fit(Y).labels_
        chosen["HDBSCAN"] = max(1, int(labels["HDBSCAN"].max()) + 1)
        labels["split and merge"] = split_and_merge(Y[:, :10], seed)  # fits better than on 32
        chosen["split and merge"] = len(np.unique(labels["split and merge"]))
        labels["true k"], chosen["true k"] = ConsensusClustering(k, random_state=seed).fit(X).labels_, k
        if importlib.util.find_spec("evoc") is not None:
            from evoc import EVoC

            labels["EVoC"] = EVoC(random_state=seed).fit(U).labels_
            chosen["EVoC"] = max(1, int(labels["EVoC"].max()) + 1)
        for rule, m in chosen.items():
            results[rule].append((m / k, adjusted_rand_score(y, labels[rule])))
        found = ", ".join(f"{rule} {m} (ARI {results[rule][-1][1]:.3f})" for rule, m in chosen.items())
        print(f"{name}, seed {seed}, {len(X)} rows, k {k}: {found}", flush=True)
    table = []
    for rule, pairs in results.items():
        ratio, ari = np.array(pairs).T
        error = np.abs(np.log(ratio))
        within = [np.mean(np.abs(ratio - 1) <= 0.2 + 1e-9), np.mean(error <= math.log(2) + 1e-9)]
        table.append([rule, f"{error.mean():.2f}", *(f"{share:.0%}" for share in within), f"{ari.mean():.3f}"])
    print(markdown_table(["method", "mean |log k error|", "within 20 %", "factor 2", "ARI"], table))


def print_quality(rows: int, seed: int) -> None:
    table = []
    for name, (k, numbers) in QUALITY.items():
        one = load([name])[name]
        X, y = one.X[:rows], one.y[:rows]
        model = CgMCR2(k, random_state=seed).fit(X)
        Z = model.transform(X)
        levels = build_levels(X, Z, model.labels_, k, seed=seed)
        for m in numbers:
            tree = score_labels(y, levels.labels(Z, model.labels_, m))
            fit = score_labels(y, ConsensusClustering(m, random_state=seed).fit(X).labels_)
            cells = [f"{getattr(s, key):.3f}" for key in ("acc", "nmi", "ari") for s in (tree, fit)]
            table.append([name.split("-")[0], str(k), str(m), *cells])
            print(table[-1], flush=True)
    heads = [f"{key}, {what}" for key in ("ACC", "NMI", "ARI") for what in ("level", "fit")]
    print(markdown_table(["set", "fitted", "level", *heads], table))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("propose", "quality"))
    parser.add_argument("--group", choices=tuple(SETS), default="check")
    parser.add_argument("--draws", type=int, default=8)
    parser.add_argument("--first-seed", type=int, default=100)
    parser.add_argument("--rows", type=int, default=2_000)
    options = parser.parse_args()
    if options.what == "quality":
        print_quality(options.rows, options.first_seed)
    else:
        seeds = range(options.first_seed, options.first_seed + options.draws)
        print_proposals(SETS[options.group], seeds, options.rows)


if __name__ == "__main__":
    main()
