"""What MLC has that the paper's recipe lacks: both recipes in one loop, changed one thing at a time.

    python benchmarks/paper_vs_mlc.py                                   # every variant, two seeds
    python benchmarks/paper_vs_mlc.py --variants paper mlc --seeds 3 --hidden-dim 4096
    python benchmarks/paper_vs_mlc.py --features aid-clip-vit-l14 --runs aid.jsonl

Protocol: fit on split 0, predict split 1. Labels are used for scores only. ``head`` is the largest logit of the cluster
head. ``spectral`` is a normalized cut of the 10-neighbour graph of ``Z`` (with Sinkhorn memberships: of the cluster
head's output ``C``), extended to split 1 by the Nyström method; this is MLC's own prediction. ``purity`` is the share
of the ten nearest neighbours in a batch, by ``Z``, that have the row's class, after the warm-up and at the end. Each
run is appended to a JSON Lines file and not repeated.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import time
import warnings
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from sklearn.cluster import KMeans
from torch import Tensor, nn
from torch.nn import functional as F

from cgmcr2.baselines.mlc import sinkhorn_membership
from cgmcr2.baselines.spectral import fit_graph, neighbours
from cgmcr2.evaluation import score_labels
from cgmcr2.experiments.formats import markdown_table
from cgmcr2.graphs.knn import top_similar
from cgmcr2.model import gumbel_softmax
from cgmcr2.objectives import cluster_coding_rate, coding_rate, cosine_topk, normalized_cut

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"


@dataclasses.dataclass(frozen=True)
class Recipe:
    """A training recipe; the defaults are the preset ``paper`` for ten classes (Table A.3, CIFAR-10)."""

    unit_input: bool = False  # scale the rows of the features to unit length
    trunk: Literal["one layer", "two layers", "none"] = "one layer"  # hidden layers that both heads share
    eps: float = 0.5  # distortion
    rate_weight: float = 1.0  # factor of both coding rates
    membership: Literal["gumbel", "softmax", "sinkhorn"] = "gumbel"  # k-way head, or doubly stochastic (n, n)
    rate_membership: Literal["head", "sinkhorn"] = "head"  # of Rc; sinkhorn: from Z itself, while the head has the cut
    warmup_epochs: int = 10  # epochs without Rc
    epochs: int = 10  # epochs with Rc
    warmup_cut: bool = True  # minimise the cut in the warm-up
    cut: bool = True  # minimise the cut afterwards
    gamma: float = 70.0  # weight of the cut's penalty
    graph: Literal["Z", "X"] = "Z"  # rows whose neighbours are the affinity of a batch
    head_clusters: int = 1  # outputs of the k-way head as a multiple of k; above 1, only Z is evaluated
    head_init: Literal["random", "k-means"] = "random"  # k-means: pre-trained to predict a k-means of the features
    copy_head: bool = False  # start the cluster head as a copy of the feature head after the warm-up (Sinkhorn only)
    batch_size: int = 512
    lr: float = 1e-4
    weight_decay: float = 5e-4
    cosine: bool = True  # anneal the learning rate to zero after the warm-up


PAPER = Recipe()
MLC = Recipe(
    unit_input=True,
    trunk="two layers",
    eps=0.1**0.5,
    rate_weight=0.5,
    membership="sinkhorn",
    warmup_epochs=1,
    warmup_cut=False,
    cut=False,
    copy_head=True,
    weight_decay=1e-4,
    cosine=False,
)
VARIANTS: dict[str, Recipe] = {
    "paper": PAPER,
    "paper: Sinkhorn instead of head and cut": dataclasses.replace(
        PAPER, membership="sinkhorn", copy_head=True, warmup_cut=False, cut=False
    ),
    "paper: Sinkhorn in Rc, head and cut kept": dataclasses.replace(PAPER, rate_membership="sinkhorn"),
    "mlc": MLC,
    "mlc: k-way head, no cut": dataclasses.replace(MLC, membership="gumbel", copy_head=False),
    "mlc: k-way head, cut": dataclasses.replace(MLC, membership="gumbel", copy_head=False, warmup_cut=True, cut=True),
    "paper: head of 5 k clusters": dataclasses.replace(PAPER, head_clusters=5),
    "paper: head from k-means": dataclasses.replace(PAPER, head_init="k-means"),
    "paper: graph of the features": dataclasses.replace(PAPER, graph="X"),
    "paper: rates of MLC": dataclasses.replace(PAPER, eps=MLC.eps, rate_weight=MLC.rate_weight),
    "paper: warm-up of 1 epoch": dataclasses.replace(PAPER, warmup_epochs=1),
    "paper: warm-up with R alone": dataclasses.replace(PAPER, warmup_cut=False),
    "paper: unit rows": dataclasses.replace(PAPER, unit_input=True),
    "paper: trunk of MLC": dataclasses.replace(PAPER, trunk="two layers"),
    "paper: lr 1e-3": dataclasses.replace(PAPER, lr=1e-3),
    "paper: softmax": dataclasses.replace(PAPER, membership="softmax"),
    "paper: gamma 5": dataclasses.replace(PAPER, gamma=5.0),
    "paper: lr constant, weight decay 1e-4": dataclasses.replace(PAPER, cosine=False, weight_decay=1e-4),
    "paper: separate trunks": dataclasses.replace(PAPER, trunk="none"),
    "paper: 4 times the epochs": dataclasses.replace(PAPER, warmup_epochs=40, epochs=40),
    "paper: batches of 1,024, twice the epochs": dataclasses.replace(
        PAPER, batch_size=1024, warmup_epochs=20, epochs=20
    ),
    "mlc: cluster head not copied": dataclasses.replace(MLC, copy_head=False),
    "mlc: rates of the paper": dataclasses.replace(MLC, eps=PAPER.eps, rate_weight=PAPER.rate_weight),
}
MU = 0.05  # weight of MLC's regulariser, its authors'
ETA = 0.175  # temperature of MLC's Sinkhorn iteration, its authors'
SINKHORN_STEPS = 5  # its authors'
EVALUATION_NEIGHBOURS = 10  # neighbours of a row in the graph that is cut at the end, MLC's default


class TwoHeads(nn.Module):
    """A feature head ``Z (n, d)`` and a cluster head on no, one or two shared hidden layers."""

    def __init__(self, D: int, hidden_dim: int, d: int, out: int, trunk: str) -> None:
        super().__init__()

        def first() -> list[nn.Module]:
            return [nn.Linear(D, hidden_dim), nn.BatchNorm1d(hidden_dim), nn.ReLU()]

        def second() -> list[nn.Module]:
            return [nn.Linear(hidden_dim, hidden_dim), nn.ReLU()]

        shared = {"none": [], "one layer": [first], "two layers": [first, second]}[trunk]
        separate = [layer for layer in (first, second) if layer not in shared]
        self.trunk = nn.Sequential(*(module for layer in shared for module in layer()))
        self.feature = nn.Sequential(*(module for layer in separate for module in layer()), nn.Linear(hidden_dim, d))
        self.cluster = nn.Sequential(*(module for layer in separate for module in layer()), nn.Linear(hidden_dim, out))

    def forward(self, X: Tensor) -> tuple[Tensor, Tensor]:
        T = self.trunk(X)
        return F.normalize(self.feature(T), dim=1), self.cluster(T)


@dataclasses.dataclass(frozen=True)
class FeatureSet:
    """Features of split 0, and features and classes of split 1; ``y`` is for the purity only."""

    X: Tensor
    y: np.ndarray
    X_test: Tensor
    y_test: np.ndarray

    @property
    def k(self) -> int:
        return len(np.unique(self.y))


def load(path: Path) -> FeatureSet:
    with np.load(path) as file:
        X, y, test = torch.from_numpy(file["features"].astype(np.float32)), file["labels"], file["split"] == 1
    return FeatureSet(X[~test], y[~test], X[test], y[test])


def train(X: Tensor, k: int, recipe: Recipe, hidden_dim: int, seed: int, after_warmup: Any) -> TwoHeads:
    """Train on ``X (n, D)``; ``after_warmup(network)`` is called between the stages."""
    torch.manual_seed(seed)
    d = 128
    out = d if recipe.membership == "sinkhorn" else k * recipe.head_clusters
    network = TwoHeads(X.shape[1], hidden_dim, d, out, recipe.trunk)
    if recipe.head_init == "k-means":
        _imitate_kmeans(network, X, k, recipe, seed)
    optimizer = torch.optim.Adam(network.parameters(), lr=recipe.lr, weight_decay=recipe.weight_decay)
    steps = math.ceil(len(X) / recipe.batch_size)
    warmup_steps, total = steps * recipe.warmup_epochs, steps * (recipe.warmup_epochs + recipe.epochs)
    order = torch.empty(0)
    for step in range(total):
        if step % steps == 0:
            order = torch.randperm(len(X))
        if step == warmup_steps:
            after_warmup(network)
            if recipe.copy_head:
                network.cluster.load_state_dict(network.feature.state_dict())
                optimizer = torch.optim.Adam(network.parameters(), lr=recipe.lr, weight_decay=recipe.weight_decay)
        if recipe.cosine and step >= warmup_steps:
            progress = (step - warmup_steps) / (total - warmup_steps)
            optimizer.param_groups[0]["lr"] = recipe.lr * (1 + math.cos(math.pi * progress)) / 2
        rows = order[len(X) * (step % steps) // steps : len(X) * (step % steps + 1) // steps]
        loss = _loss(network, X[rows], recipe, warming_up=step < warmup_steps)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        if loss.isfinite():
            optimizer.step()
    return network.eval()


def _loss(network: TwoHeads, X: Tensor, recipe: Recipe, *, warming_up: bool) -> Tensor:
    Z, output = network(X)
    loss = -recipe.rate_weight * coding_rate(Z, recipe.eps)
    if recipe.membership == "sinkhorn":
        return loss if warming_up else loss + _sinkhorn_rate(Z, F.normalize(output, dim=1), recipe)
    Pi = gumbel_softmax(output) if recipe.membership == "gumbel" else output.softmax(1)
    if not warming_up and recipe.rate_membership == "sinkhorn":
        loss = loss + _sinkhorn_rate(Z, Z, recipe)
    elif not warming_up:
        loss = loss + recipe.rate_weight * cluster_coding_rate(Z, Pi, recipe.eps)
    if recipe.warmup_cut if warming_up else recipe.cut:
        loss = loss + normalized_cut(Pi, cosine_topk(Z if recipe.graph == "Z" else X, 10), recipe.gamma)
    return loss


def _sinkhorn_rate(Z: Tensor, C: Tensor, recipe: Recipe) -> Tensor:
    """Rc of ``Z (n, d)`` with doubly stochastic memberships from ``C (n, d)``, and MLC's regulariser of them."""
    Pi = sinkhorn_membership(C, ETA, SINKHORN_STEPS)
    rate = cluster_coding_rate(Z, Pi, recipe.eps, tolerance=1e-4)
    return recipe.rate_weight * rate + MU / 2 * Pi.square().sum()


def _imitate_kmeans(network: TwoHeads, X: Tensor, k: int, recipe: Recipe, seed: int) -> None:
    """Train the cluster head for five epochs to predict a k-means (ten initialisations) of the unit rows."""
    labels = KMeans(k, n_init=10, random_state=seed).fit(F.normalize(X, dim=1).numpy()).labels_
    target = torch.from_numpy(labels.astype(np.int64))
    optimizer = torch.optim.Adam(network.parameters(), lr=recipe.lr)
    for _ in range(5):
        for rows in torch.randperm(len(X)).split(recipe.batch_size):
            optimizer.zero_grad(set_to_none=True)
            F.cross_entropy(network(X[rows])[1], target[rows]).backward()
            optimizer.step()


@torch.no_grad()
def evaluate(network: TwoHeads, data: FeatureSet, recipe: Recipe, seed: int, prefix: str = "") -> dict[str, float]:
    """Accuracy of head and spectral clustering on split 1, and purity of the batch graph on split 0."""
    training = network.training
    network.eval()
    (Z, output), (Z_test, output_test) = network(data.X), network(data.X_test)
    network.train(training)
    results = {}

    def score(name: str, predicted: Any) -> None:
        results[prefix + name] = round(score_labels(data.y_test, np.asarray(predicted)).acc, 4)

    rows = torch.arange(min(recipe.batch_size, len(Z)))
    nearest = top_similar(Z[rows], EVALUATION_NEIGHBOURS)[1].numpy()
    results[prefix + "purity"] = round(float((data.y[nearest] == data.y[rows.numpy(), None]).mean()), 4)
    results[prefix + "R"] = round(float(coding_rate(Z, 0.5)), 1)
    if recipe.membership != "sinkhorn":
        if recipe.head_clusters == 1:
            score("head", output_test.argmax(1))
    elif not prefix:
        Z, Z_test = F.normalize(output, dim=1), F.normalize(output_test, dim=1)
    if not prefix:
        _, extension, _ = fit_graph(Z.numpy(), neighbours(Z.numpy(), EVALUATION_NEIGHBOURS), data.k, None, seed)
        score("spectral", extension.predict(Z_test.numpy()))
    return results


def run(data: FeatureSet, recipe: Recipe, hidden_dim: int, seed: int) -> dict[str, float]:
    """Train and evaluate one recipe."""
    if recipe.unit_input:
        data = dataclasses.replace(data, X=F.normalize(data.X, dim=1), X_test=F.normalize(data.X_test, dim=1))
    start = time.perf_counter()
    warmup: dict[str, float] = {}

    def after_warmup(network: TwoHeads) -> None:
        warmup.update(evaluate(network, data, recipe, seed, "warmup_"))

    network = train(data.X, data.k, recipe, hidden_dim, seed, after_warmup)
    return {**warmup, **evaluate(network, data, recipe, seed), "seconds": round(time.perf_counter() - start)}


def table(runs: list[dict[str, Any]]) -> str:
    """Return accuracy and purity in percent, by seed, as Markdown."""
    columns = ("warmup_head", "head", "spectral", "warmup_purity", "purity")
    rows = []
    for name in dict.fromkeys(run["variant"] for run in runs):
        group = [run for run in runs if run["variant"] == name]
        cells = [", ".join(f"{100 * run[c]:.1f}" for run in group if c in run) or "-" for c in columns]
        rows.append([name, *cells])
    return markdown_table(["variant", *(c.replace("_", " ") for c in columns)], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--features", default="cifar10-dinov2-vits14", help="a file, or a name in ../shared/data")
    parser.add_argument("--variants", nargs="+", default=list(VARIANTS), choices=VARIANTS, metavar="VARIANT")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--hidden-dim", type=int, default=1024)
    parser.add_argument("--runs", type=Path, default=Path("paper_vs_mlc.jsonl"), help="log of runs; it is resumed")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    path = Path(arguments.features)
    path = path if path.exists() else SHARED / f"{arguments.features}.npz"
    data = load(path)
    runs = [json.loads(line) for line in arguments.runs.read_text().splitlines()] if arguments.runs.exists() else []
    runs = [one for one in runs if (one["set"], one["hidden_dim"]) == (path.stem, arguments.hidden_dim)]
    finished = {(one["variant"], one["seed"]) for one in runs}
    for seed in range(arguments.seeds):
        for name in arguments.variants:
            if (name, seed) in finished:
                continue
            identity = {"set": path.stem, "variant": name, "seed": seed, "hidden_dim": arguments.hidden_dim}
            runs.append({**identity, **run(data, VARIANTS[name], arguments.hidden_dim, seed)})
            print(json.dumps(runs[-1]), flush=True)
            with arguments.runs.open("a") as file:
                file.write(json.dumps(runs[-1]) + "\n")
    chosen = [one for one in runs if one["variant"] in arguments.variants and one["seed"] < arguments.seeds]
    print(table(chosen))


if __name__ == "__main__":
    main()
