"""Reliability of confidence and stability: calibration error, and rank correlation with the accuracy.

    python benchmarks/trust.py                              # presets auto and paper (width 512), two seeds, all sets
    python benchmarks/trust.py --sets digits my.npz --presets auto --seeds 3 --rows 3000

Protocol: fit on split 0 (at most ``--rows`` rows), predict split 1 with the cluster head (digits: all rows for both).
Labels are used for scores only, after a one-to-one matching with the clusters. The expected calibration error has 15
bins of equal width; "before" is the softmax of the head without calibration. Each run is appended to a JSON Lines file
and not repeated.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import softmax
from scipy.stats import spearmanr

from accuracy import FeatureSet, Run, append_log, default_sets, load, read_log
from cgmcr2 import CgMCR2
from cgmcr2.consensus.partitions import match_clusters
from cgmcr2.evaluation import score_labels
from cgmcr2.experiments.formats import markdown_table

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
    selected = np.random.default_rng(seed).permutation(len(one.X))[:rows]
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
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    sets = load(arguments.sets or default_sets())
    runs = run_all(sets, arguments.presets, arguments.seeds, arguments.rows, arguments.runs)
    rows = [
        [run["set"], run["preset"], str(run["seed"]), *(f"{100 * run[key]:.1f}" for key in PERCENTAGES)] for run in runs
    ]
    print(markdown_table(["set", "preset", "seed", *PERCENTAGES.values()], rows, align="llr"))
    for key in ("stability", "rate_reduction"):
        rank = spearmanr([run["acc"] for run in runs], [run[key] for run in runs]).statistic
        print(f"Rank correlation of ACC and {key.replace('_', ' ')} over {len(runs)} runs: {rank:.2f}")


if __name__ == "__main__":
    main()
