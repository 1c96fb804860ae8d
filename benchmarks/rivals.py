"""Every baseline on every feature set at hand, through ``cgmcr2 compare``.

    python benchmarks/rivals.py -o rivals                                  # all sets and methods, seed 0
    python benchmarks/rivals.py -o rivals --sets aid flowers --methods temi turtle --seeds 3
    python benchmarks/rivals.py -o rivals-doubled --sets aid digits --double # twice the steps, without early stopping
    python benchmarks/rivals.py -o rivals-all --protocol all               # fitted on both splits
    python benchmarks/rivals.py -o rivals-both --methods tac --text both   # with more words
    python benchmarks/rivals.py -o rivals --table                          # print the table of finished runs

Split 0 is fitted and split 1 predicted, unless ``--protocol all``. Labels are used for scores only. Digits are
scikit-learn's, the first 1,297 rows of a random permutation fitted and the other 500 predicted. TAC uses the shared
embeddings of nouns, which exist for CLIP ViT-B/32 only; ``--text both`` adds ImageNet's class names. Methods are the
outer loop, so that an interrupted benchmark has complete rows; finished runs are not repeated.
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_digits

from cgmcr2.baselines import METHODS
from cgmcr2.baselines.tac import TAC
from cgmcr2.experiments.comparison import compare
from cgmcr2.experiments.formats import markdown_table
from cgmcr2.experiments.runner import read_results
from words import load_text

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"
SETS = {  # name: file and number of classes
    "digits": ("", 10),
    "aid": ("aid-clip-vit-l14", 7),
    "flowers": ("flowers102-clip-vit-b32", 102),
    "pets": ("pets-clip-vit-b32", 37),
    "dtd": ("dtd-clip-vit-b32", 47),
    "imagenette": ("imagenette-clip-vit-b32", 10),
    "caltech": ("caltech101-clip-vit-b32", 100),
    "dino": ("cifar10-dinov2-vits14", 10),
    "lite0": ("cifar10-efficientnet-lite0", 10),
}
# cheap methods first; cpp equals mlc if k is given
ORDER = (
    *("k-means", "spherical-k-means", "consensus", "spectral", "evoc", "hdbscan", "scan", "turtle", "ensc", "auto"),
    *("tac", "umap-k-means", "neuncut", "temi", "pro-dsc", "nmce", "mlc"),
)


def feature_file(name: str, folder: Path) -> Path:
    """Path of a feature set; digits are written to ``folder`` first."""
    if name != "digits":
        return SHARED / f"{SETS[name][0]}.npz"
    path = folder / "digits.npz"
    if not path.exists():
        digits = load_digits()
        order = np.random.default_rng(0).permutation(len(digits.data))
        split = (np.arange(len(order)) >= 1297).astype(np.int8)
        np.savez(path, features=digits.data[order].astype(np.float32), labels=digits.target[order], split=split)
    return path


def doubled_epochs(set_name: str, folder: Path) -> int:
    """The epochs of TAC, whose length is given in epochs, for twice its default number of steps."""
    with np.load(feature_file(set_name, folder)) as file:
        n = int((file["split"] == 0).sum())
    _, per_epoch, steps = TAC(SETS[set_name][1]).training_length(n)
    return 2 * math.ceil(steps / per_epoch)


def method_settings(method: str, set_name: str, folder: Path, double: bool, text: str) -> dict[str, Any] | None:
    """Settings of a method on a set, or None if it cannot run there; ``text`` is the vocabulary of TAC."""
    settings: dict[str, Any] = {}
    if method == "tac":
        if "clip-vit-b32" not in SETS[set_name][0]:
            return None
        path = folder / f"{text}.npy"
        if not path.exists():
            np.save(path, load_text(text).embeddings)
        settings["text"] = str(path)
    if double:
        defaults = METHODS[method]().get_params() if method in METHODS else {}
        if "max_steps" not in defaults:
            return None
        settings |= {name: 2 * defaults[name] for name in ("max_steps", "self_label_steps") if name in defaults}
        settings["tolerance"] = None
        if method == "tac":
            settings["epochs"] = doubled_epochs(set_name, folder)
    return settings


def table(folder: Path, sets: list[str], methods: list[str]) -> str:
    """ACC in percent of every method on every set, as Markdown."""
    results = {name: read_results(folder / name) for name in sets}
    rows = []
    for method in methods:
        cells = []
        for name in sets:
            runs = [r for r in results[name].values() if r["method"] == method and "error" not in r]
            mean = f"{100 * np.mean([run['acc'] for run in runs]):.1f}" if runs else ""
            found = {run["clusters"] for run in runs} if method in ("evoc", "hdbscan") else set()
            cells.append(f"{mean} ({', '.join(map(str, sorted(found)))})" if found else mean)
        rows.append([method, *cells])
    return markdown_table(["method", *sets], rows, align="l" + "r" * len(sets))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--methods", nargs="+", choices=ORDER, default=list(ORDER))
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--protocol", choices=("unseen", "all"), default="unseen")
    parser.add_argument("--text", choices=("nouns", "both"), default="nouns", help="words of TAC")
    parser.add_argument("--double", action="store_true")
    parser.add_argument("--table", action="store_true", help="only print the table")
    arguments = parser.parse_args()
    folder = arguments.output
    folder.mkdir(parents=True, exist_ok=True)
    for method in [] if arguments.table else arguments.methods:
        for name in arguments.sets:
            settings = method_settings(method, name, folder, arguments.double, arguments.text)
            if settings is None:
                continue
            comparison = compare(
                feature_file(name, folder),
                SETS[name][1],
                folder / name,
                methods=[method],
                seeds=arguments.seeds,
                settings={method: settings},
                protocol=arguments.protocol,
                in_process=True,
            )
            for run in comparison.results:
                outcome = run.get("error") or f"ACC {100 * run['acc']:.1f} %, {run['seconds']:.0f} s"
                print(f"{name}, {method}, seed {run['seed']}: {outcome}", flush=True)
    print(table(folder, arguments.sets, arguments.methods))


if __name__ == "__main__":
    main()
