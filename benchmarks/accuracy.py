"""Accuracy of the presets, k-means and spectral clustering on every feature set at hand.

    python benchmarks/accuracy.py                                    # all feature sets, five seeds
    python benchmarks/accuracy.py --sets digits my.npz --methods auto k-means --seeds 3
    python benchmarks/accuracy.py --imbalance                        # class sizes fall geometrically, 10 : 1

Protocol: fit on split 0, predict split 1 with the cluster head (digits: all 1,797 rows for both). Labels are used for
scores only. ``k-means`` is scikit-learn's with ten initialisations on unit rows, fitted on split 0. ``spectral-S`` is
scikit-learn's on the graph of the S nearest neighbours by cosine; it cannot predict, so it clusters split 1 itself, and
the best S counts. A feature set is a file with ``features``, ``labels`` and ``split``; ``coarse_labels`` make another
set. ``digits`` is scikit-learn's. Each run is appended to a JSON Lines file and not repeated, so an interrupted
benchmark can be resumed.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from sklearn.cluster import KMeans, SpectralClustering
from sklearn.datasets import load_digits

from cgmcr2 import CgMCR2
from cgmcr2._arrays import unit_rows
from cgmcr2.evaluation import score_labels
from cgmcr2.experiments.formats import markdown_table

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"
FILES = ("aid-clip-vit-l14", "flowers102-clip-vit-b32", "cifar10-efficientnet-lite0", "cifar100-efficientnet-lite0")
METHODS = ("auto", "paper", "reference", "k-means", "spectral-3", "spectral-10", "spectral-30")
SCORES = ("acc", "nmi", "ari")
Array = npt.NDArray[Any]
Run = dict[str, Any]


class FeatureSet(NamedTuple):
    """Features and classes to fit on, and to score on."""

    X: Array
    y: Array
    X_test: Array
    y_test: Array

    @property
    def k(self) -> int:
        return len(np.unique(self.y))


def default_sets() -> list[str]:
    """Return ``digits`` and the names of the shared files that exist."""
    return ["digits", *(name for name in FILES if (SHARED / f"{name}.npz").exists())]


def load(names: list[str]) -> dict[str, FeatureSet]:
    """Return the feature sets of files by name; a file with coarse labels holds two."""
    return {name: feature_set for file in names for name, feature_set in _load_file(file).items()}


def _load_file(name: str) -> dict[str, FeatureSet]:
    if name == "digits":
        X, y = load_digits(return_X_y=True)
        X = X.astype(np.float32)
        return {"digits": FeatureSet(X, y, X, y)}
    path = Path(name) if Path(name).exists() else SHARED / f"{name}.npz"
    with np.load(path) as file:
        X = file["features"].astype(np.float32)
        test = file["split"] == 1 if "split" in file else np.ones(len(X), dtype=bool)
        train = ~test if (~test).any() else test
        arrays = [file[array] for array in ("labels", "coarse_labels") if array in file]
    sets = [FeatureSet(X[train], y[train], X[test], y[test]) for y in arrays]
    return {path.stem if len(sets) == 1 else f"{path.stem}:{one.k}": one for one in sets}


def imbalanced(one: FeatureSet) -> FeatureSet:
    """Return a subset whose class sizes fall geometrically from 10 to 1, in the same order in both splits."""
    rng = np.random.default_rng(0)
    classes, sizes = np.unique(one.y, return_counts=True)
    order = rng.permutation(len(classes))
    order = order[np.argsort(-sizes[order], kind="stable")]

    def subset(y: Array) -> Array:
        largest = max((y == c).sum() for c in classes)
        rows = []
        for rank, c in enumerate(classes[order]):
            members = rng.permutation(np.flatnonzero(y == c))
            rows.append(members[: max(1, round(largest * 10 ** (-rank / max(1, len(classes) - 1))))])
        return np.sort(np.concatenate(rows))

    rows = subset(one.y)
    test = rows if one.X_test is one.X else subset(one.y_test)
    return FeatureSet(one.X[rows], one.y[rows], one.X_test[test], one.y_test[test])


def predict(method: str, one: FeatureSet, seed: int, hidden_dim: int | None) -> Array:
    """Return the cluster of each test row."""
    if method == "k-means":
        model = KMeans(one.k, n_init=10, random_state=seed).fit(unit_rows(one.X))
        return np.asarray(model.predict(unit_rows(one.X_test)))
    if method.startswith("spectral-"):
        spectral = SpectralClustering(
            one.k,
            affinity="nearest_neighbors",
            n_neighbors=min(int(method.removeprefix("spectral-")), len(one.X_test)),
            random_state=seed,
        )
        return np.asarray(spectral.fit_predict(unit_rows(one.X_test)))
    settings = {"hidden_dim": hidden_dim} if hidden_dim and method != "auto" else None
    return CgMCR2(one.k, preset=method, random_state=seed, settings=settings).fit(one.X).predict(one.X_test)


def read_log(log: Path) -> list[Run]:
    """Return the runs in a JSON Lines file; none if it does not exist."""
    return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []


def append_log(log: Path, run: Run) -> None:
    with log.open("a") as file:
        file.write(json.dumps(run) + "\n")


def run_all(
    sets: dict[str, FeatureSet], methods: list[str], seeds: int, hidden_dim: int | None, log: Path
) -> list[Run]:
    """Run what the log does not hold yet and return all runs."""
    runs = {(run["set"], run["method"], run["seed"]): run for run in read_log(log)}
    keys = [(name, method, seed) for name in sets for seed in range(seeds) for method in methods]
    for name, method, seed in [key for key in keys if key not in runs]:
        start = time.perf_counter()
        predicted = predict(method, sets[name], seed, hidden_dim)
        seconds = time.perf_counter() - start
        scores = score_labels(sets[name].y_test, predicted)._asdict()
        runs[name, method, seed] = {"set": name, "method": method, "seed": seed, **scores, "s": seconds}
        append_log(log, runs[name, method, seed])
        print(
            f"{name} {method} seed {seed}: ACC {scores['acc']:.3f} NMI {scores['nmi']:.3f} in {seconds:.0f} s",
            flush=True,
        )
    return [runs[key] for key in keys]


def table(runs: list[Run]) -> str:
    """Return mean ± standard deviation in percent as Markdown, and the lead of ``auto`` over the best other method."""
    rows = []
    for name in dict.fromkeys(run["set"] for run in runs):
        means = {}
        for method in METHODS:
            values = {
                key: [run[key] for run in runs if (run["set"], run["method"]) == (name, method)]
                for key in (*SCORES, "s")
            }
            if values["s"]:
                means[method] = {key: float(np.mean(numbers)) for key, numbers in values.items()}
                cells = [f"{100 * means[method][key]:.1f} ± {100 * np.std(values[key]):.1f}" for key in SCORES]
                rows.append([name, method, str(len(values["s"])), *cells, f"{means[method]['s']:.0f}"])
        if "auto" in means and len(means) > 1:
            rows.append([name, "*lead of auto*", "", *_lead(means), "", ""])
    return markdown_table(["set", "method", "seeds", "ACC", "NMI", "ARI", "seconds"], rows, align="llr")


def _lead(means: dict[str, dict[str, float]]) -> list[str]:
    others = [scores for method, scores in means.items() if method != "auto"]
    lead = {key: 100 * (means["auto"][key] - max(scores[key] for scores in others)) for key in ("acc", "nmi")}
    return [f"{lead['acc']:+.1f} (target +2)", f"{lead['nmi']:+.1f} (target 0)"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", help="'digits', feature files, or names of files in ../shared/data")
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=METHODS, metavar="METHOD")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--imbalance", action="store_true", help="class sizes that fall geometrically, 10 : 1")
    parser.add_argument("--hidden-dim", type=int, help="width for the presets paper and reference; default: 4096")
    parser.add_argument("--runs", type=Path, default=Path("accuracy.jsonl"), help="log of runs; it is resumed")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    sets = load(arguments.sets or default_sets())
    if arguments.imbalance:
        sets = {f"{name} 10:1": imbalanced(one) for name, one in sets.items()}
    print(table(run_all(sets, arguments.methods, arguments.seeds, arguments.hidden_dim, arguments.runs)))


if __name__ == "__main__":
    main()
