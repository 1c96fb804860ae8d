"""Train an encoder from nothing on small images, and compare its features with pixels, PCA and a random network.

    python benchmarks/pretrain.py IMAGES.npz --method moco-v2 --width 16 --minutes 25 --folder FOLDER

IMAGES.npz holds ``images`` uint8 (n, s, s, 3), ``labels`` and ``split`` (0 train, 1 test); ``digits`` stands for
scikit-learn's digits, enlarged to 16 pixels, the last 500 of them as split 1. Training uses the images of split 0
without labels. Repeat the command to resume an interrupted run. ``FOLDER/knn.jsonl`` is the curve of the 20-NN
accuracy, ``FOLDER/metrics.jsonl`` that of the loss, and ``FOLDER/result.json`` the result.

20-NN: cosine similarity of centred features, uniform vote, train labels, accuracy on split 1. k-means (n_init 10) and
CgMCR2 (auto): fitted on unit rows of split 0, predicting split 1. All figures use one view (the image) unless marked.
"""

from __future__ import annotations

import argparse
import json
import logging
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import normalize

from cgmcr2 import CgMCR2
from cgmcr2._files import write_json
from cgmcr2.encoders.resnet import ResNet18
from cgmcr2.evaluation import score_labels
from cgmcr2.pretrain import pretrain, resolve
from cgmcr2.pretrain.augment import draw
from cgmcr2.pretrain.folder import save_encoder
from cgmcr2.pretrain.loop import default_augmentation
from cgmcr2.training.batches import steps_per_epoch

Array = np.ndarray[Any, Any]


def read_images(path: Path) -> tuple[Array, Array, Array]:
    """The images (n, s, s, 3), labels (n,) and split (n,) of an .npz, or of scikit-learn's digits."""
    if path == Path("digits"):
        digits = load_digits()
        pixels = (15 * digits.images).astype(np.uint8).repeat(2, 1).repeat(2, 2)
        return pixels[..., None].repeat(3, -1), digits.target, np.arange(len(pixels)) >= len(pixels) - 500
    data = np.load(path)
    return data["images"], data["labels"], data["split"]


def knn(X: Array, y: Array, X_test: Array, y_test: Array) -> float:
    mean = X.mean(0)
    model = KNeighborsClassifier(20, metric="cosine", algorithm="brute").fit(X - mean, y)
    return float(model.score(X_test - mean, y_test))


@torch.no_grad()
def encode(network: torch.nn.Module, images: Array, settings: Any, *, views: int = 0) -> Array:
    """Features (n, D) of the images, or the mean of those of augmented views."""
    augmentation = default_augmentation(settings)
    mean, std = torch.tensor(augmentation.mean), torch.tensor(augmentation.std)
    chunks = []
    for start in range(0, len(images), 250):
        pixels = torch.from_numpy(images[start : start + 250])
        if views:
            numbers = [draw(len(pixels), seed=0, step=start, view=view) for view in range(views)]
            inputs = [augmentation(pixels, u) for u in numbers]
        else:
            inputs = [((pixels.float() / 255 - mean) / std).permute(0, 3, 1, 2)]
        chunks.append(torch.stack([network(x) for x in inputs]).mean(0))
    return torch.cat(chunks).float().numpy()


def random_network(images: Array, settings: Any) -> torch.nn.Module:
    """An untrained network whose BatchNorm has the statistics of the images."""
    torch.manual_seed(0)
    network = ResNet18(settings.stem, settings.width).train()
    encode(network, images[:2500], settings)
    return network.eval()


def cluster(X: Array, X_test: Array, y_test: Array, k: int, seeds: int) -> dict[str, list[list[float]]]:
    X, X_test = normalize(X), normalize(X_test)
    scores: dict[str, list[list[float]]] = {"k-means": [], "auto": []}
    for seed in range(seeds):
        models = {"k-means": KMeans(k, n_init=10, random_state=seed), "auto": CgMCR2(k, random_state=seed)}
        for name, model in models.items():
            result = score_labels(y_test, model.fit(X).predict(X_test))
            scores[name].append([round(100 * float(result.acc), 1), round(100 * float(result.nmi), 1)])
    return scores


def seconds_per_step(images: Array, method: str, overrides: dict[str, Any]) -> float:
    """CPU time of a step per thread, from the difference of a short and a shorter training."""
    per_epoch = steps_per_epoch(len(images), resolve(method, overrides)[0].batch_size)
    seconds = []
    for steps in (2, 8):
        start = time.process_time()
        pretrain(images, method, {**overrides, "epochs": steps / per_epoch}, precision="float32", device="cpu")
        seconds.append(time.process_time() - start)
    return (seconds[1] - seconds[0]) / 6 / torch.get_num_threads()


def plan_epochs(args: argparse.Namespace, images: Array, overrides: dict[str, Any]) -> float:
    """The number of epochs, kept in the folder so that a resumed run has the same."""
    path = args.folder / "plan.json"
    if not path.exists():
        epochs, step = args.epochs, None
        if epochs is None:
            step = seconds_per_step(images, args.method, overrides)
            per_epoch = steps_per_epoch(len(images), resolve(args.method, overrides)[0].batch_size)
            epochs = max(1, round(60 * args.minutes / (step * per_epoch)))
        write_json(path, {"epochs": epochs, "cpu_seconds_per_step": step})
    plan = json.loads(path.read_text())
    print("plan:", plan, flush=True)
    return float(plan["epochs"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("images", type=Path)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--method", default="moco-v2")
    parser.add_argument("--width", type=int, default=16)
    parser.add_argument("--epochs", type=float)
    parser.add_argument("--minutes", type=float, default=25, help="CPU minutes per thread, instead of --epochs")
    parser.add_argument("--rows", type=int, help="use only so many images of each split")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seeds", type=int, default=2, help="of the clusterings")
    parser.add_argument("--every", type=int, help="epochs between points of the curve; default: a tenth of all")
    parser.add_argument("--only-trained", action="store_true", help="leave out pixels, PCA and the random network")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    args = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")

    images, labels, split = read_images(args.images)
    train, test = np.flatnonzero(split == 0)[: args.rows], np.flatnonzero(split == 1)[: args.rows]
    X, y, X_test, y_test = images[train], labels[train], images[test], labels[test]
    overrides = {"size": images.shape[1], "width": args.width}
    overrides |= {name: json.loads(value) for name, _, value in (item.partition("=") for item in args.set)}
    overrides["epochs"] = plan_epochs(args, X, overrides)
    settings, options = resolve(args.method, overrides)
    every = args.every or max(1, round(settings.epochs / 10))

    def on_epoch(epoch: int, backbone: torch.nn.Module) -> None:
        if epoch % every == 0:
            accuracy = knn(encode(backbone, X, settings), y, encode(backbone, X_test, settings), y_test)
            with (args.folder / "knn.jsonl").open("a") as file:
                file.write(json.dumps({"epoch": epoch, "knn": round(100 * accuracy, 1)}) + "\n")

    trained = pretrain(
        X,
        args.method,
        overrides,
        seed=args.seed,
        precision="float32",
        device="cpu",
        folder=args.folder,
        progress=True,
        on_epoch=on_epoch,
    )
    if not trained.finished:
        return
    pixels = X.reshape(len(X), -1) / 255, X_test.reshape(len(X_test), -1) / 255
    pca = PCA(min(128, trained.dim, len(X)), random_state=0).fit(pixels[0])
    untrained = random_network(X, settings)
    features = {
        "pixels": pixels,
        "PCA": (pca.transform(pixels[0]), pca.transform(pixels[1])),
        "random network": (encode(untrained, X, settings), encode(untrained, X_test, settings)),
        args.method: (encode(trained.backbone, X, settings), encode(trained.backbone, X_test, settings)),
        f"{args.method}, 2 views": tuple(encode(trained.backbone, part, settings, views=2) for part in (X, X_test)),
    }
    if args.only_trained:
        features = {name: parts for name, parts in features.items() if name.startswith(args.method)}
    k = len(np.unique(y))
    result: dict[str, Any] = {"settings": {**vars(settings), **options}, "seed": args.seed, "n": [len(X), len(X_test)]}
    result["loss"] = trained.history[-1]["loss"]
    for name, (fit, predict) in features.items():
        result[name] = {"knn": round(100 * knn(fit, y, predict, y_test), 1)}
        result[name] |= cluster(fit.astype(np.float32), predict.astype(np.float32), y_test, k, args.seeds)
        print(name, result[name], flush=True)
        write_json(args.folder / "result.json", result)
    save_encoder(
        trained, args.folder, {"settings": {"method": args.method, **vars(settings), **options}, "seed": args.seed}
    )


if __name__ == "__main__":
    main()
