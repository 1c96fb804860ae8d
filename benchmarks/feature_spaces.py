"""Several feature spaces: ACC on unseen rows of ``auto`` with each space alone, side by side, and with noise.

    python benchmarks/feature_spaces.py FILE [FILE ...] --seeds 3

FILE is an .npz file with ``labels``, ``split`` (0: fitted, 1: evaluated) and one array (n, D) per feature space. Every
line is one fit, as JSON. "matrix" is one matrix of the unit rows side by side; "noise" adds a space of Gaussian noise
to the last space, "shuffled" the rows of the first space in random order.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
from sklearn.metrics import normalized_mutual_info_score

from cgmcr2 import CgMCR2
from cgmcr2._arrays import unit_rows
from cgmcr2.evaluation import clustering_accuracy


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--seeds", type=int, default=3)
    arguments = parser.parse_args()
    for path in arguments.files:
        with np.load(path) as file:
            y, test = np.unique(file["labels"], return_inverse=True)[1], file["split"] == 1
            spaces = {name: file[name].astype(np.float32) for name in file.files if file[name].ndim == 2}
        rng = np.random.default_rng(0)
        first, last = next(iter(spaces.values())), list(spaces.values())[-1]
        inputs = {name: [X] for name, X in spaces.items()} | {
            "both": list(spaces.values()),
            "matrix": [np.concatenate([unit_rows(X) for X in spaces.values()], axis=1)],
            "noise": [last, rng.standard_normal(last.shape).astype(np.float32)],
            "shuffled": [last, rng.permutation(first)],
        }
        for seed in range(arguments.seeds):
            for name, parts in inputs.items():
                model = CgMCR2(len(np.unique(y)), random_state=seed).fit([X[~test] for X in parts])
                labels = model.predict([X[test] for X in parts])
                record = {
                    "file": path.stem,
                    "input": name,
                    "seed": seed,
                    "accuracy": round(clustering_accuracy(y[test], labels), 4),
                    "nmi": round(normalized_mutual_info_score(y[test], labels), 4),
                    "stability": round(model.calibration_.stability, 3),
                }
                print(json.dumps(record), flush=True)


if __name__ == "__main__":
    main()
