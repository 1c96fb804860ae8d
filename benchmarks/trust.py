"""Reliability of confidence and stability: calibration error, rank correlation with the accuracy, outliers.

    python benchmarks/trust.py                              # presets auto and paper (width 512), two seeds, all sets
    python benchmarks/trust.py --sets digits my.npz --presets auto --seeds 3 --rows 3000
    python benchmarks/trust.py --outliers pets-clip-vit-b32:dtd-clip-vit-b32 [SET:OTHER ...]

Protocol: fit on split 0 (at most ``--rows`` rows), predict split 1 with the cluster head (digits: 500 rows held out).
Labels are used for scores only, after a one-to-one matching with the clusters. The expected calibration error has 15
bins of equal width; "before" is the softmax of the head without calibration. Each run is appended to a JSON Lines file
and not repeated.

``--outliers`` adds rows of OTHER, 5 % of the rows of SET, before the fit and prints the AUROC in percent of scores that
tell the added rows from the rest: the outlier score, the distance to the tenth neighbour in the embedding and in the
features, and scikit-learn's isolation forest on the features.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from scipy.special import softmax
from scipy.stats import spearmanr
from sklearn.ensemble import IsolationForest
from sklearn.metrics import roc_auc_score

from accuracy import FeatureSet, Run, append_log, default_sets, load, read_log
from cgmcr2 import CgMCR2
from cgmcr2._arrays import unit_rows
from cgmcr2.consensus.partitions import match_clusters
from cgmcr2.evaluation import score_labels
from cgmcr2.experiments.formats import markdown_table
from cgmcr2.graphs.knn import top_similar

PERCENTAGES = {  # keys of a run: titles of the table
    "acc": "ACC",
    "stability": "stability",
    "confidence_before": "confidence before",
    "confidence": "confidence after",
    "ece_before": "ECE before",
    "ece": "ECE after",
}


def calibration_error(confidence: npt.NDArray[Any], correct: npt.NDArray[Any], bins: int = 15) -> float:
    """Return the mean distance between confidence and accuracy over the bins, weighted by their sizes."""
    index = np.clip((confidence * bins).astype(int), 0, bins - 1)
    masks = [index == b for b in range(bins)]
    return float(sum(m.mean() * abs(confidence[m].mean() - correct[m].mean()) for m in masks if m.any()))


def evaluate(one: FeatureSet, preset: str, seed: int, rows: int) -> dict[str, float]:
    """Fit, predict, and compare confidence and stability with the labels."""
    order = np.random.default_rng(seed).permutation(len(one.X))
    if one.X_test is one.X:  # no test split: hold out 500 rows
        held_out, order = order[:500], order[500:]
        one = one._replace(X_test=one.X[held_out], y_test=one.y[held_out])
    selected = order[:rows]
    settings = None if preset == "auto" else {"hidden_dim": 512}
    model = CgMCR2(one.k, preset=preset, random_state=seed, settings=settings).fit(one.X[selected])
    after = model.predict_proba(one.X_test)
    labels, y = after.argmax(1), np.unique(one.y_test, return_inverse=True)[1]
    correct = match_clusters(labels, y, one.k) == y
    temperature = model.calibration_.temperature
    with np.errstate(divide="ignore"):
        before = softmax(temperature * np.log(after), axis=1).max(1)  # undoes the temperature
    return {
        "acc": score_labels(one.y_test, labels).acc,
        "stability": model.calibration_.stability,
        "rate_reduction": model.score(one.X_test),
        "temperature": temperature,
        "confidence_before": float(before.mean()),
        "confidence": float(after.max(1).mean()),
        "ece_before": calibration_error(before, correct),
        "ece": calibration_error(after.max(1), correct),
    }


def tenth_neighbour_distance(X: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """(n,) the cosine distance of each unit row to its tenth nearest neighbour."""
    return 1 - top_similar(torch.from_numpy(X), 10, sort=True)[0][:, -1].numpy()


def outlier_auroc(one: FeatureSet, other: FeatureSet, seed: int, rows: int) -> dict[str, float]:
    """Add rows of ``other`` to those of ``one``, fit, and return the AUROC of each score."""
    rng = np.random.default_rng(seed)
    X = one.X[rng.permutation(len(one.X))[:rows]]
    added = rng.permutation(other.X)[: round(0.05 * len(X))]
    X, is_added = np.concatenate([X, added]), np.arange(len(X) + len(added)) >= len(X)
    model = CgMCR2(one.k, random_state=seed).fit(X)
    Z, U = model.transform(X), unit_rows(X)
    scores = {
        "outlier score": model.outlier_scores(X),
        "neighbours in Z": tenth_neighbour_distance(Z),
        "neighbours in the features": tenth_neighbour_distance(U),
        "isolation forest": -IsolationForest(random_state=seed).fit(U).score_samples(U),
    }
    return {name: 100 * float(roc_auc_score(is_added, score)) for name, score in scores.items()}


def print_outliers(pairs: list[str], seeds: int, rows: int) -> None:
    """Print the mean AUROC of each score for pairs SET:OTHER."""
    table = []
    for pair in pairs:
        one, other = (next(iter(load([name]).values())) for name in pair.split(":"))
        runs = [outlier_auroc(one, other, seed, rows) for seed in range(seeds)]
        means = {name: float(np.mean([run[name] for run in runs])) for name in runs[0]}
        print(pair, means, flush=True)
        table.append([pair, *(f"{mean:.1f}" for mean in means.values())])
    print(markdown_table(["set:other", *means], table, align="lr"))


def run_all(sets: dict[str, FeatureSet], presets: list[str], seeds: int, rows: int, log: Path) -> list[Run]:
    """Run what the log does not hold yet and return all runs."""
    runs = {(run["set"], run["preset"], run["seed"]): run for run in read_log(log)}
    for seed in range(seeds):
        for name, one in sets.items():
            for preset in presets:
                if (name, preset, seed) not in runs:
                    run = {"set": name, "preset": preset, "seed": seed, **evaluate(one, preset, seed, rows)}
                    runs[name, preset, seed] = run
                    append_log(log, run)
    return list(runs.values())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", help="'digits', feature files, or names of files in ../shared/data")
    parser.add_argument("--presets", nargs="+", default=["auto", "paper"])
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--rows", type=int, default=3000, help="limit on the rows that are fitted")
    parser.add_argument("--runs", type=Path, default=Path("trust.jsonl"), help="log of runs; it is resumed")
    parser.add_argument("--outliers", nargs="+", metavar="SET:OTHER", help="AUROC for rows of OTHER mixed into SET")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    if arguments.outliers:
        print_outliers(arguments.outliers, arguments.seeds, arguments.rows)
        return
    sets = load(arguments.sets or default_sets())
    runs = run_all(sets, arguments.presets, arguments.seeds, arguments.rows, arguments.runs)
    rows = [
        [run["set"], run["preset"], str(run["seed"]), *(f"{100 * run[key]:.1f}" for key in PERCENTAGES)] for run in runs
    ]
    print(markdown_table(["set", "preset", "seed", *PERCENTAGES.values()], rows, align="llr"))
    errors = [[100 * run[key] for run in runs] for key in ("ece_before", "ece")]
    lower = sum(after < before for before, after in zip(*errors, strict=True))
    means = " and ".join(f"{np.mean(values):.1f}" for values in errors)
    print(f"Mean ECE before and after: {means}; lower after calibration in {lower} of {len(runs)} runs.")
    for key in ("stability", "rate_reduction"):
        rank = spearmanr([run["acc"] for run in runs], [run[key] for run in runs]).statistic
        print(f"Rank correlation of ACC and {key.replace('_', ' ')} over {len(runs)} runs: {rank:.2f}")


if __name__ == "__main__":
    main()
