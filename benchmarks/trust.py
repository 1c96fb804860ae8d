"""How far confidence and agreement can be trusted: calibration error, and rank correlation of agreement with accuracy.

    python benchmarks/trust.py                              # auto and paper (width 512), two seeds, every set at hand
    python benchmarks/trust.py --sets digits my.npz --presets auto --seeds 3 --rows 3000

Protocol: fit on split 0 (at most ``--rows`` of it), predict split 1 with the cluster head (digits: all rows for both).
Labels only judge, matched one to one with the clusters. Expected calibration error: 15 bins of equal width; "before" is
the head's own softmax. Every run is appended to a file of JSON lines and not done again.
"""

from __future__ import annotations

import argparse
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import spearmanr

from accuracy import FILES, SHARED, load
from cgmcr2 import CgMCR2
from cgmcr2.consensus.stability import matched
from cgmcr2.evaluation import score_labels


def calibration_error(confidence: Any, right: Any, bins: int = 15) -> float:
    """Mean distance between confidence and accuracy over the bins, weighted by their sizes."""
    place = np.clip((confidence * bins).astype(int), 0, bins - 1)
    parts = [place == b for b in range(bins)]
    return float(sum(p.mean() * abs(confidence[p].mean() - right[p].mean()) for p in parts if p.any()))


def judge(one: Any, preset: str, seed: int, rows: int) -> dict[str, float]:
    """Fit, predict, and compare confidence and agreement with the labels."""
    random = np.random.default_rng(seed)
    chosen = random.permutation(len(one.X))[:rows]
    width = None if preset == "auto" else 512
    model = CgMCR2(one.k, preset=preset, random_state=seed, hidden_dim=width).fit(one.X[chosen])
    after = model.predict_proba(one.X_test)
    labels, y = after.argmax(1), np.unique(one.y_test, return_inverse=True)[1]
    right = matched(labels, y, one.k) == y
    before = model._logits(one.X_test).softmax(1).amax(1).numpy()
    return {
        "acc": score_labels(one.y_test, labels).acc,
        "agreement": model.calibration_.agreement,
        "rate_reduction": model.score(one.X_test),
        "temperature": model.calibration_.temperature,
        "confidence_before": float(before.mean()),
        "confidence": float(after.max(1).mean()),
        "ece_before": calibration_error(before, right),
        "ece": calibration_error(after.max(1), right),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+")
    parser.add_argument("--presets", nargs="+", default=["auto", "paper"])
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--rows", type=int, default=3000)
    parser.add_argument("--runs", type=Path, default=Path("trust.jsonl"))
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    names = arguments.sets or ["digits", *(name for name in FILES if (SHARED / f"{name}.npz").exists())]
    sets = {name: one for file in names for name, one in load(file).items()}
    runs = [json.loads(line) for line in arguments.runs.read_text().splitlines()] if arguments.runs.exists() else []
    done = {(run["set"], run["preset"], run["seed"]) for run in runs}
    for seed in range(arguments.seeds):
        for name, one in sets.items():
            for preset in arguments.presets:
                if (name, preset, seed) not in done:
                    run = {"set": name, "preset": preset, "seed": seed, **judge(one, preset, seed, arguments.rows)}
                    runs.append(run)
                    with arguments.runs.open("a") as file:
                        file.write(json.dumps(run) + "\n")
    print("| set | preset | seed | ACC | agreement | confidence before, after | ECE before | ECE after |")
    print("| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for run in runs:
        cells = [f"{100 * run[key]:.1f}" for key in ("acc", "agreement", "confidence_before", "confidence")]
        errors = [f"{100 * run[key]:.1f}" for key in ("ece_before", "ece")]
        print(f"| {run['set']} | {run['preset']} | {run['seed']} | {' | '.join(cells[:2])} | ", end="")
        print(f"{cells[2]}, {cells[3]} | {' | '.join(errors)} |")
    for key in ("agreement", "rate_reduction"):
        rank = spearmanr([run["acc"] for run in runs], [run[key] for run in runs]).statistic
        print(f"Rank correlation of ACC and {key} over {len(runs)} runs: {rank:.2f}")


if __name__ == "__main__":
    main()
