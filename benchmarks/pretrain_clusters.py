"""Cluster small images from their pixels, and compare with k-means on the pixels.

    python benchmarks/pretrain_clusters.py IMAGES.npz --method cc --set width=8 --set epochs=15 --rows 4000

IMAGES.npz holds ``images`` uint8 (n, s, s, 3), ``labels`` and ``split`` (0 train, 1 test), or is ``digits`` as for
``pretrain.py``. Split 0 is fitted without labels, split 1 is predicted. One line of JSON per curve point goes to
standard output, and one with the result.
``knn`` is the 20-NN accuracy of the features of the network: cosine similarity of centred features, uniform vote, all
labels of split 0, accuracy on split 1.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.cluster import KMeans

from cgmcr2.evaluation import score_labels
from cgmcr2.pretrain import ImageClusterer, make_clusterer
from pretrain import knn, read_images


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("images", type=Path)
    parser.add_argument("--method", default="cc")
    parser.add_argument("--rows", type=int, help="use only so many images of split 0")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--every", type=int, default=1, help="epochs between points of the curve")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    args = parser.parse_args()

    images, labels, split = read_images(args.images)
    known, test = np.flatnonzero(split == 0), np.flatnonzero(split == 1)
    train = known[: args.rows]
    k = len(np.unique(labels))
    settings = {name: json.loads(value) for name, _, value in (item.partition("=") for item in args.set)}
    start = time.process_time()

    def report(predicted: np.ndarray[Any, Any], **fields: object) -> None:
        scores = score_labels(labels[test], predicted)
        sizes = np.bincount(predicted, minlength=k) / len(predicted)
        record = {
            "method": args.method,
            "seed": args.seed,
            **fields,
            "acc": round(100 * float(scores.acc), 1),
            "nmi": round(100 * float(scores.nmi), 1),
            "largest_cluster": round(100 * float(sizes.max()), 1),
            "clusters": int((sizes > 0).sum()),
            "cpu_minutes": round((time.process_time() - start) / 60, 2),
        }
        print(json.dumps(record), flush=True)

    def accuracy(model: ImageClusterer) -> float:
        fit, predict = (model._map(images[rows], model.model_.backbone).numpy() for rows in (known, test))
        return round(100 * knn(fit, labels[known], predict, labels[test]), 1)

    def on_epoch(epoch: int, model: ImageClusterer) -> None:
        if epoch % args.every == 0:
            report(model._labels(images[test]), epoch=epoch, knn=accuracy(model))

    if args.method == "k-means":
        pixels = images.reshape(len(images), -1).astype(np.float32) / 255
        report(KMeans(k, n_init=10, random_state=args.seed).fit(pixels[train]).predict(pixels[test]))
        return
    options = {"random_state": args.seed, "precision": "float32", "on_epoch": on_epoch}
    model = make_clusterer(args.method, k, **options, **settings)
    model.fit(images[train])
    losses: dict[tuple[int, int], list[float]] = {}  # by stage and epoch
    stage = 0
    for record in model.history_:
        stage += record["step"] == 0
        losses.setdefault((stage, record["epoch"]), []).append(record["loss"])
    curve = {f"{stage}.{epoch}": round(float(np.mean(values)), 3) for (stage, epoch), values in losses.items()}
    report(model.predict(images[test]), knn=accuracy(model), settings=settings, rows=len(train), loss=curve)


if __name__ == "__main__":
    main()
