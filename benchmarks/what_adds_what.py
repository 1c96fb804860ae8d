"""What each part of ``auto`` adds: accuracy on unseen rows with parts left out.

    python benchmarks/what_adds_what.py FOLDER --sets aid-clip-vit-l14 pets-clip-vit-b32 --seeds 3

FOLDER holds feature files with ``features``, ``labels`` and ``split`` (0: fitted, 1: evaluated); ``digits`` is always
available. Every line is one fit, as JSON.
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
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer

from cgmcr2 import CgMCR2
from cgmcr2.consensus import ConsensusClustering
from cgmcr2.evaluation import clustering_accuracy
from cgmcr2.objectives import CgMCR2Objective

Array = np.ndarray[Any, Any]
ROWS = {"cifar10-efficientnet-lite0": (6_000, 2_000), "cifar100-efficientnet-lite0": (6_000, 2_000)}


@contextmanager
def without(**terms: bool) -> Iterator[None]:
    """Train without terms of the objective, such as ``use_cut=False``."""
    forward = CgMCR2Objective.forward

    def reduced(self: CgMCR2Objective, *arguments: Any, **keywords: Any) -> Any:
        return forward(self, *arguments, **{**keywords, **terms})

    CgMCR2Objective.forward = reduced  # type: ignore[method-assign]
    try:
        yield
    finally:
        CgMCR2Objective.forward = forward  # type: ignore[method-assign]


def kmeans(X: Array, X_new: Array, k: int, seed: int) -> Array:
    model = make_pipeline(Normalizer(), KMeans(k, n_init=10, random_state=seed)).fit(X)
    return np.asarray(model.predict(X_new), dtype=np.int64)


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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--sets", nargs="+", default=["digits"])
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--seeds", type=int, default=3)
    arguments = parser.parse_args()
    for seed in range(arguments.seeds):
        for name in arguments.sets:
            X, y, X_new, y_new = load(arguments.folder, name)
            for method in arguments.methods:
                start = time.process_time()
                labels = METHODS[method](X, X_new, len(np.unique(y)), seed)
                record = {
                    "set": name,
                    "method": method,
                    "seed": seed,
                    "accuracy": round(clustering_accuracy(y_new, labels), 4),
                    "cpu_seconds": round(time.process_time() - start, 1),
                }
                print(json.dumps(record), flush=True)


if __name__ == "__main__":
    main()
