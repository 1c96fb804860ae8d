"""What each part of ``auto`` adds: accuracy on unseen rows with parts left out; with unequal classes; with few rows.

    python benchmarks/what_adds_what.py FOLDER --sets aid-clip-vit-l14 pets-clip-vit-b32 --seeds 3
    python benchmarks/what_adds_what.py FOLDER --imbalance 10 --methods k-means spectral consensus auto
    python benchmarks/what_adds_what.py FOLDER --dominant --methods k-means consensus
    python benchmarks/what_adds_what.py FOLDER --rows 50 --methods k-means auto --seeds 10
    python benchmarks/what_adds_what.py FOLDER --methods paper reference --width 1024

FOLDER holds feature files with ``features``, ``labels`` and ``split`` (0: fitted, 1: evaluated); ``digits`` is always
available. Every line is one fit, as JSON.

``--imbalance 10`` keeps rows so that the class sizes fall geometrically, the largest ten times the smallest, in both
splits. ``--dominant`` keeps one class and as many rows of all others. ``--rows`` fits that many rows, of at most a
fifth as many classes, and evaluates all unseen rows of those classes. Classes and rows are drawn anew for each seed.
``spectral`` is scikit-learn's on the ten nearest neighbours of the evaluated rows themselves. ``--width`` is the number
of hidden units of ``paper`` and ``reference``, 4096 by default.
"""

from __future__ import annotations

import argparse
import functools
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.cluster import KMeans, SpectralClustering
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer

from cgmcr2 import CgMCR2
from cgmcr2.consensus import ConsensusClustering
from cgmcr2.evaluation import clustering_accuracy
from cgmcr2.objectives import CgMCR2Objective
from cgmcr2.training.guide import ConsensusGuide

Array = np.ndarray[Any, Any]
ROWS = {"cifar10-efficientnet-lite0": (6_000, 2_000), "cifar100-efficientnet-lite0": (6_000, 2_000)}


@contextmanager
def without(**terms: bool) -> Iterator[None]:
    """Train without terms of the objective, such as ``use_cut=False``.

    Without any term, the cross-entropy keeps its weight after the warm-up.
    """
    forward, guide = CgMCR2Objective.forward, ConsensusGuide.__call__

    def reduced(self: CgMCR2Objective, *arguments: Any, **keywords: Any) -> Any:
        return forward(self, *arguments, **{**keywords, **terms})

    def constant(self: ConsensusGuide, logits: Any, rows: Any, step: int) -> Any:
        return guide(self, logits, rows, 0)

    CgMCR2Objective.forward = reduced  # type: ignore[method-assign]
    if len(terms) == 3:
        ConsensusGuide.__call__ = constant  # type: ignore[method-assign]
    try:
        yield
    finally:
        CgMCR2Objective.forward = forward  # type: ignore[method-assign]
        ConsensusGuide.__call__ = guide  # type: ignore[method-assign]


def kmeans(X: Array, X_new: Array, k: int, seed: int) -> Array:
    model = make_pipeline(Normalizer(), KMeans(k, n_init=10, random_state=seed)).fit(X)
    return np.asarray(model.predict(X_new), dtype=np.int64)


def spectral(X: Array, X_new: Array, k: int, seed: int) -> Array:
    neighbours = min(10, len(X_new))
    model = SpectralClustering(k, affinity="nearest_neighbors", n_neighbors=neighbours, random_state=seed)
    return np.asarray(model.fit_predict(Normalizer().transform(X_new)), dtype=np.int64)


def consensus(X: Array, X_new: Array, k: int, seed: int) -> Array:
    return ConsensusClustering(k, random_state=seed).fit(X).predict(X_new)


def linear_head(X: Array, X_new: Array, k: int, seed: int) -> Array:
    labels = ConsensusClustering(k, random_state=seed).fit(X).labels_
    model = make_pipeline(Normalizer(), LogisticRegression(C=100, max_iter=300)).fit(X, labels)
    return np.asarray(model.predict(X_new), dtype=np.int64)


def trained(X: Array, X_new: Array, k: int, seed: int, *, terms: dict[str, bool], **parameters: Any) -> Array:
    with without(**terms):
        return CgMCR2(k, random_state=seed, **parameters).fit(X).predict(X_new)


def network(terms: tuple[str, ...] = (), **parameters: Any) -> Callable[..., Array]:
    return functools.partial(trained, terms=dict.fromkeys(terms, False), **parameters)


METHODS: dict[str, Callable[..., Array]] = {
    "k-means": kmeans,
    "spectral": spectral,
    "consensus": consensus,
    "consensus + linear head": linear_head,
    "network, cross-entropy only": network(("use_rate", "use_cluster_rate", "use_cut")),
    "auto without R": network(("use_rate",)),
    "auto without Rc": network(("use_cluster_rate",)),
    "auto without cut": network(("use_cut",)),
    "auto": network(),
    "auto from random heads": network(settings={"consensus_weight": 0}),
    "paper": network(preset="paper"),
    "reference": network(preset="reference"),
}


def load(folder: Path, name: str) -> tuple[Array, Array, Array, Array]:
    """Features and labels of the fitted and of the evaluated rows."""
    if name == "digits":
        X, y = load_digits(return_X_y=True)
        split = np.random.default_rng(0).permutation(len(X)) >= 1_297
    else:
        with np.load(folder / f"{name}.npz") as file:
            labels = "coarse_labels" if name.startswith("cifar100") else "labels"
            X, y, split = file["features"], file[labels], file["split"] == 1
    fitted, evaluated = ROWS.get(name, (None, None))
    train, test = np.flatnonzero(~split)[:fitted], np.flatnonzero(split)[:evaluated]
    X, y = X.astype(np.float32), np.unique(y, return_inverse=True)[1]
    return X[train], y[train], X[test], y[test]


def class_shares(classes: Array, y: Array, imbalance: float, rng: np.random.Generator) -> dict[int, float]:
    """The share of the largest size that each class keeps; classes that have fewer rows come later."""
    order = rng.permutation(classes)
    sizes = np.bincount(y)[order]
    if sizes.max() > 1.5 * sizes.min():
        order = order[np.argsort(-sizes, kind="stable")]
    steps = np.arange(len(order)) / max(1, len(order) - 1)
    return dict(zip(order.tolist(), (imbalance**-steps).tolist(), strict=True))


def unequal(y: Array, shares: dict[int, float], rng: np.random.Generator) -> Array:
    """Rows of ``y (n,)`` with class sizes in proportion to ``shares``, as many as there are."""
    largest = int((y == next(iter(shares))).sum())
    members = {c: rng.permutation(np.flatnonzero(y == c)) for c in shares}
    return np.sort(np.concatenate([members[c][: max(2, round(largest * share))] for c, share in shares.items()]))


def dominant(y: Array, c: int, rng: np.random.Generator) -> Array:
    """All rows of the class c and as many of the others."""
    others = rng.permutation(np.flatnonzero(y != c))
    return np.sort(np.concatenate([np.flatnonzero(y == c), others[: (y == c).sum()]]))


def draw(y: Array, y_new: Array, arguments: argparse.Namespace, seed: int) -> tuple[Array, Array]:
    """The rows to fit and to evaluate, by the options."""
    rng = np.random.default_rng(seed)
    classes = np.unique(y)
    if arguments.rows:
        kept = rng.permutation(classes)[: arguments.rows // 5]
        rows = rng.permutation(np.flatnonzero(np.isin(y, kept)))[: arguments.rows]
        return rows, np.flatnonzero(np.isin(y_new, y[rows]))
    if arguments.dominant:
        c = int(rng.choice(classes[np.bincount(y) >= np.median(np.bincount(y))]))
        rows, rows_new = dominant(y, c, rng), dominant(y_new, c, rng)
        return rows, rows_new[np.isin(y_new[rows_new], y[rows])]
    if arguments.imbalance > 1:
        shares = class_shares(classes, y, arguments.imbalance, rng)
        return unequal(y, shares, rng), unequal(y_new, shares, rng)
    return np.arange(len(y)), np.arange(len(y_new))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--sets", nargs="+", default=["digits"])
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--imbalance", type=float, default=1, help="largest over smallest class size")
    parser.add_argument("--dominant", action="store_true", help="one class has half of all rows")
    parser.add_argument("--rows", type=int, default=0, help="number of rows to fit; default: all")
    parser.add_argument("--width", type=int, default=4096, help="hidden units of paper and reference")
    arguments = parser.parse_args()
    width = {"hidden_dim": arguments.width}
    methods = METHODS | {name: network(preset=name, settings=width) for name in ("paper", "reference")}
    for seed in range(arguments.first_seed, arguments.first_seed + arguments.seeds):
        for name in arguments.sets:
            X, y, X_new, y_new = load(arguments.folder, name)
            rows, rows_new = draw(y, y_new, arguments, seed)
            if len(rows) < arguments.rows:
                continue  # the set is too small
            X, y, X_new, y_new = X[rows], y[rows], X_new[rows_new], y_new[rows_new]
            for method in arguments.methods:
                start = time.process_time()
                labels = methods[method](X, X_new, len(np.unique(y)), seed)
                record = {
                    "set": name,
                    "method": method,
                    "seed": seed,
                    "rows": len(X),
                    "k": len(np.unique(y)),
                    "accuracy": round(clustering_accuracy(y_new, labels), 4),
                    "cpu_seconds": round(time.process_time() - start, 1),
                }
                print(json.dumps(record), flush=True)


if __name__ == "__main__":
    main()
