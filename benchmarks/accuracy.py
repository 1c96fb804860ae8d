"""How accurate the presets are, beside k-means and spectral clustering, on every feature set at hand.

    python benchmarks/accuracy.py                                    # everything, five seeds
    python benchmarks/accuracy.py --sets digits my.npz --methods auto k-means --seeds 3
    python benchmarks/accuracy.py --imbalance                        # class sizes falling geometrically, 10 : 1

Protocol: fit on split 0, predict split 1 with the cluster head (digits: all 1,797 rows for both). Labels only judge.
``k-means``: scikit-learn's, ten starts, unit rows, fitted on split 0. ``spectral-S``: scikit-learn's, on the graph of
the S nearest rows by cosine, and since it cannot predict, on split 1 itself; the best S counts. A feature set is a file
with ``features``, ``labels`` (and ``coarse_labels``, a set of its own) and ``split``; ``digits`` is scikit-learn's.
Every run is appended to a file of JSON lines and not done again, so a table that was cut short can be finished.
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
from cgmcr2.evaluation import score_labels

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"
FILES = ("aid-clip-vit-l14", "flowers102-clip-vit-b32", "cifar10-efficientnet-lite0", "cifar100-efficientnet-lite0")
METHODS = ("auto", "paper", "reference", "k-means", "spectral-3", "spectral-10", "spectral-30")
Array = npt.NDArray[Any]


class FeatureSet(NamedTuple):
    """Rows to fit on and rows to judge by, with the classes of both."""

    X: Array
    y: Array
    X_test: Array
    y_test: Array

    @property
    def k(self) -> int:
        return len(np.unique(self.y))


def load(name: str) -> dict[str, FeatureSet]:
    """The feature sets of a file, one for each kind of label, by name; ``digits`` is the one that needs no file."""
    if name == "digits":
        X, y = load_digits(return_X_y=True)
        X = X.astype(np.float32)
        return {"digits": FeatureSet(X, y, X, y)}
    path = Path(name) if Path(name).exists() else SHARED / f"{name}.npz"
    with np.load(path) as file:
        X = file["features"].astype(np.float32)
        test = file["split"] == 1 if "split" in file else np.ones(len(X), dtype=bool)
        train = ~test if (~test).any() else test
        kinds = [kind for kind in ("labels", "coarse_labels") if kind in file]
        sets = [FeatureSet(X[train], file[kind][train], X[test], file[kind][test]) for kind in kinds]
    return {path.stem if len(sets) == 1 else f"{path.stem}:{one.k}": one for one in sets}


def thinned(one: FeatureSet) -> FeatureSet:
    """With class sizes that fall geometrically, 10 : 1, from the largest class to the last, alike in both splits."""
    random = np.random.default_rng(0)
    classes, sizes = np.unique(one.y, return_counts=True)
    order = random.permutation(len(classes))
    order = order[np.argsort(-sizes[order], kind="stable")]

    def kept(y: Array) -> Array:
        largest = max((y == c).sum() for c in classes)
        rows = []
        for place, c in enumerate(classes[order]):
            own = random.permutation(np.flatnonzero(y == c))
            rows.append(own[: max(1, round(largest * 10 ** (-place / max(1, len(classes) - 1))))])
        return np.sort(np.concatenate(rows))

    rows = kept(one.y)
    test = rows if one.X_test is one.X else kept(one.y_test)
    return FeatureSet(one.X[rows], one.y[rows], one.X_test[test], one.y_test[test])


def _unit(X: Array) -> Array:
    return np.asarray(X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-12))


def labels_by(method: str, one: FeatureSet, seed: int, hidden_dim: int | None) -> Array:
    """The cluster of each test row."""
    if method == "k-means":
        model = KMeans(one.k, n_init=10, random_state=seed).fit(_unit(one.X))
        return np.asarray(model.predict(_unit(one.X_test)))
    if method.startswith("spectral-"):
        spectral = SpectralClustering(
            one.k,
            affinity="nearest_neighbors",
            n_neighbors=min(int(method.removeprefix("spectral-")), len(one.X_test)),
            random_state=seed,
        )
        return np.asarray(spectral.fit_predict(_unit(one.X_test)))
    width = hidden_dim if method != "auto" else None
    return CgMCR2(one.k, preset=method, random_state=seed, hidden_dim=width).fit(one.X).predict(one.X_test)


def run_all(
    sets: dict[str, FeatureSet], methods: list[str], seeds: int, hidden_dim: int | None, log: Path
) -> list[dict[str, Any]]:
    """Every run that the file does not hold yet, and then all of them."""
    runs = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
    done = {(run["set"], run["method"], run["seed"]) for run in runs}
    for name, one in sets.items():
        for method, seed in [(m, seed) for seed in range(seeds) for m in methods if (name, m, seed) not in done]:
            start = time.perf_counter()
            predicted = labels_by(method, one, seed, hidden_dim)
            seconds = time.perf_counter() - start
            acc, nmi, ari = score_labels(one.y_test, predicted)
            run = {"set": name, "method": method, "seed": seed, "acc": acc, "nmi": nmi, "ari": ari, "s": seconds}
            runs.append(run)
            with log.open("a") as file:
                file.write(json.dumps(run) + "\n")
            print(f"{name} {method} seed {seed}: ACC {acc:.3f} NMI {nmi:.3f} in {seconds:.0f} s", flush=True)
    wanted = {(name, m, seed) for name in sets for m in methods for seed in range(seeds)}
    return [run for run in runs if (run["set"], run["method"], run["seed"]) in wanted]


def table(runs: list[dict[str, Any]]) -> str:
    """Markdown: mean and standard deviation in percent, and whether ``auto`` reaches the bar."""
    lines = ["| set | method | seeds | ACC | NMI | ARI | seconds |", "| --- | --- | ---: | ---: | ---: | ---: | ---: |"]
    for name in dict.fromkeys(run["set"] for run in runs):
        means = {}
        for method in METHODS:
            own = [run for run in runs if (run["set"], run["method"]) == (name, method)]
            if own:
                means[method] = {key: float(np.mean([run[key] for run in own])) for key in ("acc", "nmi", "ari", "s")}
                cells = [
                    f"{100 * means[method][key]:.1f} ± {100 * np.std([run[key] for run in own]):.1f}"
                    for key in ("acc", "nmi", "ari")
                ]
                lines.append(f"| {name} | {method} | {len(own)} | {' | '.join(cells)} | {means[method]['s']:.0f} |")
        ours, others = means.pop("auto", None), list(means.values())
        if ours and others:
            ahead = {key: 100 * (ours[key] - max(other[key] for other in others)) for key in ("acc", "nmi")}
            lines.append(f"| {name} | *auto ahead by* | | {ahead['acc']:+.1f} (bar +2) | {ahead['nmi']:+.1f} (0) | | |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", help="'digits', feature files, or names of those in ../shared/data")
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=METHODS, metavar="METHOD")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--imbalance", action="store_true", help="class sizes falling geometrically, 10 : 1")
    parser.add_argument("--hidden-dim", type=int, help="width of the paper's and reference presets, 4096 by default")
    parser.add_argument("--runs", type=Path, default=Path("accuracy.jsonl"), help="finished runs, read and appended to")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    names = arguments.sets or ["digits", *(name for name in FILES if (SHARED / f"{name}.npz").exists())]
    sets = {name: one for file in names for name, one in load(file).items()}
    if arguments.imbalance:
        sets = {f"{name} 10:1": thinned(one) for name, one in sets.items()}
    runs = run_all(sets, arguments.methods, arguments.seeds, arguments.hidden_dim, arguments.runs)
    print(table(runs))


if __name__ == "__main__":
    main()
