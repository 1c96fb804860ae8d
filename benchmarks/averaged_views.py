"""Averaged views: ACC and NMI of k-means and ``auto`` on features of one image and of several augmented views.

    python benchmarks/averaged_views.py photos --labels photos-labels.csv      # a folder; the table has path and label
    python benchmarks/averaged_views.py cifar10-images.npz --rows 4000         # arrays images, labels and split

A folder is fitted and evaluated as a whole. An .npz file is fitted on split 0 and evaluated on split 1, both subsampled
in proportion.
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path

import numpy as np
from PIL import Image
from sklearn.cluster import KMeans

from cgmcr2 import CgMCR2
from cgmcr2._arrays import unit_rows
from cgmcr2.encoders import load_encoder
from cgmcr2.evaluation import score_labels


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path)
    parser.add_argument("--labels", type=Path)
    parser.add_argument("--rows", type=int, default=4_000)
    parser.add_argument("--encoder", default="bundled")
    parser.add_argument("--views", type=int, nargs="+", default=[0, 2, 4], help="0 is the image itself")
    parser.add_argument("--seeds", type=int, default=3)
    arguments = parser.parse_args()
    images, y, test = read(arguments.source, arguments.labels, arguments.rows)
    fitted = ~test if test.any() else np.ones(len(y), dtype=bool)
    judged = test if test.any() else fitted
    k = len(np.unique(y))
    print("| views | k-means, ACC | NMI | `auto`, ACC | NMI |\n| ---: | --- | --- | --- | --- |")
    for views in arguments.views:
        X = encode(images, arguments.encoder + (f"?views={views}" if views else ""))
        cells = []
        for create in (lambda seed: KMeans(k, n_init=10, random_state=seed), lambda seed: CgMCR2(k, random_state=seed)):
            labels = [create(seed).fit(X[fitted]).predict(X[judged]) for seed in range(arguments.seeds)]
            scores = [score_labels(y[judged], prediction) for prediction in labels]
            for values in zip(*[(score.acc, score.nmi) for score in scores], strict=True):
                cells += [f"{100 * np.mean(values):.1f} ± {100 * np.std(values):.1f}"]
        print(f"| {views or 'none'} | {' | '.join(cells)} |", flush=True)


def read(source: Path, table: Path | None, rows: int) -> tuple[list[Image.Image], np.ndarray, np.ndarray]:
    """The images, their classes (n,), and which rows (n,) are evaluated only."""
    if source.suffix != ".npz":
        assert table is not None, "a folder needs --labels"
        with table.open() as file:
            lines = list(csv.reader(file))[1:]
        images = [Image.open(source / Path(line[0]).name).convert("RGB") for line in lines]
        return images, np.unique([line[1] for line in lines], return_inverse=True)[1], np.zeros(len(lines), dtype=bool)
    with np.load(source) as file:
        order = np.random.default_rng(0).permutation(len(file["labels"]))[:rows]
        pixels, y, split = (file[name][order] for name in ("images", "labels", "split"))
    return [Image.fromarray(image) for image in pixels], y, split == 1


def encode(images: list[Image.Image], name: str) -> np.ndarray:
    """Unit rows (n, D) of the features."""
    encoder = load_encoder(name)
    batches = [images[start : start + 32] for start in range(0, len(images), 32)]
    features = [encoder.encode(np.stack([encoder.preprocess(image) for image in batch])) for batch in batches]
    return unit_rows(np.concatenate(features))


if __name__ == "__main__":
    main()
