"""Count the answers of a person that learning from edits needs for an accuracy, next to logistic regression.

The simulated person answers truthfully, one image at a time:

- The person knows each cluster by the class of most of its images. The image goes to the cluster of its class, or to a
  new cluster if its class has none. This is one answer, whether or not the image was in the right cluster.
- If the image is in a second cluster of its class, the person merges this cluster into the first. This counts as one
  more answer.

After each round of answers, the clusters are refined. The accuracy is the clustering accuracy of all images (best
one-to-one matching of clusters and classes); the images that were answered are among them. Compared are the review
order, a random order, and logistic regression on the labels given so far, which asks for the images of smallest margin
(uncertainty sampling) after a random first round.

    python benchmarks/refine_answers.py DATA --set photos=.99 --set aid=.99 --set cifar10=.9 --plot curves.svg
"""

from __future__ import annotations

import argparse
import csv
import json
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment
from sklearn.linear_model import LogisticRegression

from cgmcr2 import CgMCR2
from cgmcr2._arrays import unit_rows
from cgmcr2.encoders import load_encoder
from cgmcr2.features import extract
from cgmcr2.features.sources import read_rows
from cgmcr2.images import Catalog
from cgmcr2.training.refinement import Constraints, FeatureGraph, refine_memberships, review_order

FILES = {
    "aid": ("aid-clip-vit-l14.npz", "labels"),
    "cifar10": ("cifar10-efficientnet-lite0.npz", "labels"),
    "cifar20": ("cifar100-efficientnet-lite0.npz", "coarse_labels"),
    "dtd": ("dtd-clip-vit-b32.npz", "labels"),
    "imagenette": ("imagenette-clip-vit-b32.npz", "labels"),
    "pets": ("pets-clip-vit-b32.npz", "labels"),
}
MAX_ROWS = 3_000
Curve = list[tuple[int, float]]


def load(name: str, data: Path, cache: Path) -> tuple[np.ndarray, np.ndarray]:
    """Features (n, D) and classes (n,) of a data set; at most 3,000 rows, drawn at random."""
    if name == "digits":
        from sklearn.datasets import load_digits

        digits = load_digits()
        return digits.data.astype(np.float32), digits.target
    if name == "photos":
        store = extract(Catalog.from_source(data / "photos"), load_encoder("bundled"), cache / "photos-features")
        with open(data / "photos-labels.csv", newline="") as file:
            classes = {row["file"]: row["label"] for row in csv.DictReader(file)}
        return read_rows(store, slice(None)), np.unique([classes[id] for id in store.ids], return_inverse=True)[1]
    file, key = FILES[name]
    with np.load(data / file) as arrays:
        X, y = arrays["features"].astype(np.float32), arrays[key]
    rows = np.random.default_rng(0).permutation(len(X))[:MAX_ROWS] if len(X) > MAX_ROWS else np.arange(len(X))
    return X[rows], np.unique(y[rows], return_inverse=True)[1]


def accuracy(y: np.ndarray, labels: np.ndarray) -> float:
    """Clustering accuracy: the best one-to-one matching of clusters and classes."""
    k = max(y.max(), labels.max()) + 1
    counts = np.bincount(labels * k + y, minlength=k * k).reshape(k, k)
    return float(counts[linear_sum_assignment(-counts)].sum() / len(y))


class Person:
    """Answers truthfully, and keeps the edited clusters."""

    def __init__(self, y: np.ndarray, labels: np.ndarray, P: np.ndarray) -> None:
        self.y, self.labels, self.P = y, labels.copy(), P
        self.given = np.full(len(y), -1)
        self.homes: dict[int, int] = {}  # the cluster of each class that was met
        self.merged: list[int] = []
        self.answers = 0

    def answer(self, row: int) -> None:
        kind, k = int(self.y[row]), self.P.shape[1]
        self.answers += 1
        counts = np.zeros((k, self.y.max() + 1), np.int64)
        np.add.at(counts, (self.labels, self.y), 1)
        majority = np.where(counts.any(1), counts.argmax(1), -1)
        if kind not in self.homes:
            candidates = [c for c in np.flatnonzero(majority == kind) if c not in self.homes.values()]
            if not candidates:
                self.P = np.pad(self.P, ((0, 0), (0, 1)))
                candidates, counts = [k], np.pad(counts, ((0, 1), (0, 0)))
            self.homes[kind] = int(max(candidates, key=lambda c: counts[c, kind]))
        home, cluster = self.homes[kind], int(self.labels[row])
        if cluster != home and cluster not in self.homes.values() and majority[cluster] == kind:
            self.answers += 1
            self.labels[self.labels == cluster] = home
            self.P[:, home] += self.P[:, cluster]
            self.P[:, cluster] = 0
            self.merged.append(cluster)
        self.labels[row] = self.given[row] = home

    @property
    def constraints(self) -> Constraints:
        none = np.empty(0, np.int64)
        return Constraints(self.given, (none, none), none, np.array(self.merged, np.int64))


def refined_curve(
    person: Person, graph: FeatureGraph, target: float, batch: int, most: int, rng: np.random.Generator | None
) -> Curve:
    """Number of answers and accuracy after each round of the review order, or of a random order with ``rng``."""
    curve = [(0, accuracy(person.y, person.labels))]
    P = refine_memberships(person.P.copy(), graph, person.constraints)
    while curve[-1][1] < target and person.answers < most:
        answered = np.flatnonzero(person.given >= 0)
        rows = (
            review_order(P, graph.walk, answered, batch)
            if rng is None
            else rng.permutation(np.setdiff1d(np.arange(len(P)), answered))[:batch]
        )
        for row in rows:
            person.answer(int(row))
        P = refine_memberships(person.P.copy(), graph, person.constraints)
        person.labels = P.argmax(1)
        curve.append((person.answers, accuracy(person.y, person.labels)))
    return curve


def regression_curve(X: np.ndarray, y: np.ndarray, target: float, batch: int, C: float, seed: int, most: int) -> Curve:
    """Accuracy of logistic regression on the labels given so far; asks for the smallest margin."""
    rng, n = np.random.default_rng(seed), len(y)
    X = unit_rows(X)
    X = (X - X.mean(0)) / X.std()
    rows, curve = rng.permutation(n)[:batch], []
    while True:
        labels, margin = np.full(n, y[rows[0]]), rng.random(n)
        if len(np.unique(y[rows])) > 1:
            model = LogisticRegression(C=C, max_iter=200).fit(X[rows], y[rows])
            P = model.predict_proba(X)
            labels = model.classes_[P.argmax(1)]
            margin = np.diff(np.sort(P, axis=1)[:, -2:], axis=1)[:, 0]
        labels[rows] = y[rows]
        curve.append((len(rows), float((labels == y).mean())))
        if curve[-1][1] >= target or len(rows) >= min(n, most):
            return curve
        margin[rows] = np.inf
        rows = np.concatenate([rows, np.argsort(margin)[:batch]])


def needed(curve: Curve, target: float) -> float:
    """The number of answers at which the curve first reaches the target."""
    return next((answers for answers, value in curve if value >= target), np.inf)


def fitted(name: str, X: np.ndarray, k: int | str, seed: int, cache: Path) -> CgMCR2:
    """The model fitted on ``X``, kept in ``cache``."""
    folder = cache / f"{name}{'-auto' if k == 'auto' else ''}{f'-{seed}' if seed else ''}-model"
    if not (folder / "config.json").exists():
        CgMCR2(k, random_state=seed).fit(X).save(folder)
    return CgMCR2.load(folder)


def measure(name: str, target: float, args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Yield the curves of a data set."""
    X, y = load(name, args.data, args.cache)
    classes, batch, most = int(y.max() + 1), args.batch, args.most

    def record(method: str, make: Callable[[int], Curve], seeds: int, **values: Any) -> dict[str, Any]:
        curves = [make(seed) for seed in range(seeds)]
        counts = [needed(curve, target) for curve in curves]
        return {"set": name, "rows": len(y), "classes": classes, "target": target, "method": method, **values} | {
            "answers": float(np.mean(counts)),
            "each": counts,
            "curve": curves[0],
        }

    for C in (0.1, 1.0):
        curve = lambda seed, C=C: regression_curve(X, y, target, batch, C, seed, most)  # noqa: E731
        yield record(f"logistic regression, C = {C:g}", curve, args.seeds)

    def refined(seed: int, k: int | str, shuffled: bool) -> Curve:
        model = fitted(name, X, k, seed, args.cache)
        inference = model.infer(X)
        assert inference.probabilities is not None
        person = Person(y, inference.labels, inference.probabilities)
        graph = FeatureGraph.of(X, model.n_clusters_)
        rng = np.random.default_rng(seed) if shuffled else None
        return refined_curve(person, graph, target, 5 * batch if shuffled else batch, most, rng)

    yield record("refine, review order", lambda seed: refined(seed, classes, False), args.seeds)
    yield record("refine, random order", lambda seed: refined(seed, classes, True), args.seeds)
    if args.auto:
        yield record("refine, review order, k chosen", lambda seed: refined(seed, "auto", False), 1)


def plot(records: list[dict[str, Any]], path: Path) -> None:
    """Draw the curves of each data set."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams |= {"svg.hashsalt": "cgmcr2", "svg.fonttype": "none", "font.size": 8}
    from matplotlib import pyplot as plt

    names = list(dict.fromkeys(record["set"] for record in records))
    figure, axes = plt.subplots(1, len(names), figsize=(3.4 * len(names), 2.8), squeeze=False, layout="constrained")
    for axis, name in zip(axes[0], names, strict=True):
        for record in records:
            if record["set"] == name and "C = 0.1" not in record["method"]:
                answers, values = zip(*record["curve"], strict=True)
                axis.plot(answers, np.multiply(values, 100), label=record["method"], linewidth=1.2)
        target = 100 * next(record["target"] for record in records if record["set"] == name)
        axis.axhline(target, color="0.7", linewidth=0.8, linestyle=":")
        longest = max(
            record["curve"][-1][0] for record in records if record["set"] == name and "random" not in record["method"]
        )
        axis.set(
            title=name, xlabel="answers", ylabel="accuracy (%)", xlim=(0, 1.5 * longest), ylim=(target - 20, 100.5)
        )
        axis.legend(fontsize=6, loc="lower right")
    figure.savefig(path, metadata={"Date": None})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="folder of the feature files and photos")
    parser.add_argument("--set", action="append", required=True, help="NAME=TARGET, such as aid=.99")
    parser.add_argument("--batch", type=int, default=5, help="answers per round")
    parser.add_argument("--most", type=int, default=1500, help="answers at which a curve ends")
    parser.add_argument("--seeds", type=int, default=3, help="random starts, orders and fits")
    parser.add_argument("--auto", action="store_true", help="also start from the chosen number of clusters")
    parser.add_argument("--cache", type=Path, default=Path("refine-cache"), help="folder of the fitted models")
    parser.add_argument("--json", type=Path, help="file of results; sets that it holds are not measured again")
    parser.add_argument("--plot", type=Path, help="SVG file of the curves")
    args = parser.parse_args()
    warnings.filterwarnings("ignore")
    records = json.loads(args.json.read_text()) if args.json and args.json.exists() else []
    for name, target in (item.split("=") for item in args.set):
        if not any(record["set"] == name for record in records):
            for record in measure(name, float(target), args):
                records.append(record)
                print(
                    f"{name:10} {float(target):.0%}  {record['method']:40} {record['answers']:.0f}  {record['each']}",
                    flush=True,
                )
            if args.json:
                args.json.write_text(json.dumps(records))
    if args.plot:
        plot(records, args.plot)


if __name__ == "__main__":
    main()
