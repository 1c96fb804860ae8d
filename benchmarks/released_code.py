"""What the authors' released code computes, written a second time, against the preset ``reference``.

    python benchmarks/released_code.py --hidden-dim 1024 --seeds 3
    python benchmarks/released_code.py --features my.npz --epochs 84 --seeds 2

The training below uses torch only, nothing of ``cgmcr2.training``, ``cgmcr2.objectives`` or ``cgmcr2.model``. It does
what the public repository does, step by step (two forward passes per step, torch's own scheduler, dense matrices, LU
determinants), with its command for CIFAR-10: ``--lr 1e-4 --wd 1e-3 --bs 512 --nz 400 --gamma 30 --w_epo 10 --epo 20``.
Two differences: float32 instead of float16 autocast, so that all that remains of the gradient scaler is to skip steps
whose gradients are not finite; and the cluster is the largest logit, to which the released code adds Gumbel noise.

Protocol: fit on split 0, predict split 1 with the cluster head. Labels are used for scores only. ``tests/benchmarks``
checks that both trainings have the same weights after several steps from the same start.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

Draw = Callable[[int], Iterator[tuple[Tensor, Tensor]]]
SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"


@dataclasses.dataclass(frozen=True)
class Options:
    """Command-line options of the released code, with the values of its command for CIFAR-10."""

    hidden_dim: int = 4096
    embedding_dim: int = 128
    eps: float = 0.5  # squared distortion
    gamma: float = 30.0
    entries: int = 400  # entries kept in each row of the affinity
    lr: float = 1e-4
    weight_decay: float = 1e-3
    batch_size: int = 512
    epochs: int = 20
    warmup_epochs: int = 10


class TwoHeadNetwork(nn.Module):
    """A projector with a feature head and a cluster head; ``threshold`` is the soft threshold of the affinity."""

    def __init__(self, D: int, k: int, options: Options) -> None:
        super().__init__()
        h, d = options.hidden_dim, options.embedding_dim
        self.projector = nn.Sequential(nn.Linear(D, h), nn.BatchNorm1d(h), nn.ReLU())
        self.feature_head = nn.Sequential(nn.Linear(h, h), nn.ReLU(), nn.Linear(h, d))
        self.cluster_head = nn.Sequential(nn.Linear(h, h), nn.ReLU(), nn.Linear(h, k))
        self.threshold = nn.Parameter(torch.zeros(1))

    def forward(self, X: Tensor) -> tuple[Tensor, Tensor]:
        T = self.projector(X)
        return self.feature_head(T), self.cluster_head(T)

    def affinity(self, X: Tensor, k: int, entries: int) -> Tensor:
        """Affinity (n, n) of a batch, from a second forward pass."""
        F = self.feature_head(self.projector(X))  # not normalised
        products = F @ F.T
        A = torch.sign(products) * torch.relu(products.abs() - self.threshold) / k
        smallest = A.topk(min(entries, len(A)), dim=1).values.amin(dim=1, keepdim=True)
        return functional.normalize(torch.where(smallest <= A, A, torch.zeros_like(A)), dim=1)


def losses(Z: Tensor, Pi: Tensor, A: Tensor, options: Options) -> tuple[Tensor, Tensor, Tensor]:
    """Coding rate, cluster-wise coding rate, and normalized cut with its penalty, of unit rows ``Z (n, d)``."""
    (n, d), k = Z.shape, Pi.shape[1]
    identity = torch.eye(d)
    rate = torch.logdet(identity + d / (n * options.eps) * Z.T @ Z) / 2
    cluster_rate = torch.zeros(())
    for j in range(k):
        size = Pi[:, j].sum() + 1e-8
        covariance = Z.T @ (Pi[:, j : j + 1] * Z)
        cluster_rate = cluster_rate + size / (2 * n) * torch.logdet(identity + d / (size * options.eps) * covariance)
    D = torch.diag(A.sum(dim=0))
    H = Pi / torch.sqrt((D @ Pi).sum(dim=0) + 1e-6)
    cut = torch.trace(H.T @ (D - A) @ H)
    penalty = torch.linalg.matrix_norm(H.T @ D @ H - torch.eye(k)) / k
    return rate, cluster_rate, cut + options.gamma * penalty


def train_step(
    network: TwoHeadNetwork, optimizer: torch.optim.Optimizer, X: Tensor, noise: Tensor, epoch: int, options: Options
) -> tuple[float, bool]:
    """Take one step on the batch ``X (n, D)``; return the loss and whether the weights were updated."""
    F, logits = network(X)
    Pi = (logits.log_softmax(dim=1) + noise).softmax(dim=1)
    A = network.affinity(X, Pi.shape[1], options.entries)
    rate, cluster_rate, cut = losses(functional.normalize(F, dim=1), Pi, A, options)
    warming_up = epoch <= options.warmup_epochs  # one epoch more than the option says
    loss = cut - rate if warming_up else cut - rate + cluster_rate
    optimizer.zero_grad()
    loss.backward()
    gradients = [p.grad for p in network.parameters() if p.grad is not None]
    finite = all(bool(gradient.isfinite().all()) for gradient in gradients)
    if finite:  # the gradient scaler skips the step otherwise
        optimizer.step()
    return loss.item(), finite


def train(network: TwoHeadNetwork, X: Tensor, draw: Draw, options: Options) -> list[float]:
    """Train ``network`` on ``X (n, D)``; return the loss of each step, NaN if it was skipped.

    ``draw(epoch)`` yields the rows (b,) and the Gumbel noise (b, k) of each batch of an epoch.
    """
    optimizer = torch.optim.Adam(network.parameters(), lr=options.lr, weight_decay=options.weight_decay)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=options.epochs)
    history = []
    for epoch in range(options.epochs):
        if epoch < options.warmup_epochs:  # overrides the scheduler, which continues from the overridden value
            optimizer.param_groups[0]["lr"] = options.lr * (epoch + 1) / options.warmup_epochs
        for rows, noise in draw(epoch):
            loss, updated = train_step(network, optimizer, X[rows], noise, epoch, options)
            history.append(loss if updated else math.nan)
        scheduler.step()
    return history


def random_batches(n: int, k: int, seed: int, options: Options) -> Draw:
    """Batches of a random permutation, without the last, partial one."""
    generator = torch.Generator().manual_seed(seed)

    def draw(epoch: int) -> Iterator[tuple[Tensor, Tensor]]:
        order = torch.randperm(n, generator=generator)
        for i in range(n // options.batch_size):
            rows = order[i * options.batch_size : (i + 1) * options.batch_size]
            yield rows, -(-torch.rand(len(rows), k, generator=generator).log()).log()

    return draw


def load(path: Path) -> tuple[Tensor, Tensor, np.ndarray]:
    """Features of split 0 and of split 1, and the classes of split 1."""
    with np.load(path) as file:
        X, y, test = torch.from_numpy(file["features"].astype(np.float32)), file["labels"], file["split"] == 1
    return X[~test], X[test], y[test]


def run_released(path: Path, k: int, seed: int, options: Options) -> tuple[np.ndarray, int]:
    """Labels of split 1 by the training above, and the number of skipped steps."""
    X, X_test, _ = load(path)
    torch.manual_seed(seed)
    network = TwoHeadNetwork(X.shape[1], k, options)
    history = train(network, X, random_batches(len(X), k, seed, options), options)
    with torch.no_grad():
        return network.eval()(X_test)[1].argmax(dim=1).numpy(), sum(map(math.isnan, history))


def run_reference(path: Path, k: int, seed: int, options: Options) -> tuple[np.ndarray, int]:
    """Labels of split 1 by the preset ``reference``, and the number of skipped steps."""
    from cgmcr2 import CgMCR2

    X, X_test, _ = load(path)
    settings = {
        "hidden_dim": options.hidden_dim,
        "warmup_epochs": options.warmup_epochs,
        "finetune_epochs": options.epochs - options.warmup_epochs,
    }
    model = CgMCR2(k, preset="reference", random_state=seed, precision="float32", settings=settings).fit(X.numpy())
    return model.predict(X_test.numpy()), sum(not record["finite"] for record in model.history_)


METHODS = {"released": run_released, "reference": run_reference}


def main() -> None:
    from cgmcr2.evaluation import score_labels

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--features", type=Path, default=SHARED / "cifar10-dinov2-vits14.npz")
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=METHODS)
    parser.add_argument("--hidden-dim", type=int, default=4096)
    parser.add_argument("--epochs", type=int, default=20, help="of both stages; half of them are the warm-up")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--runs", type=Path, default=Path("released_code.jsonl"), help="log of runs; it is resumed")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    options = Options(
        hidden_dim=arguments.hidden_dim, epochs=arguments.epochs, warmup_epochs=round(arguments.epochs / 2)
    )
    y = load(arguments.features)[2]
    k = len(np.unique(y))
    finished = [json.loads(line) for line in arguments.runs.read_text().splitlines()] if arguments.runs.exists() else []
    for seed in range(arguments.seeds):
        for method in arguments.methods:
            run = {
                "set": arguments.features.stem,
                "method": method,
                "seed": seed,
                "hidden_dim": options.hidden_dim,
                "epochs": options.epochs,
            }
            if any(run.items() <= one.items() for one in finished):
                continue
            start = time.perf_counter()
            predicted, run["skipped"] = METHODS[method](arguments.features, k, seed, options)
            run |= {name: round(value, 4) for name, value in score_labels(y, predicted)._asdict().items()}
            run["seconds"] = round(time.perf_counter() - start)
            print(json.dumps(run), flush=True)
            with arguments.runs.open("a") as file:
                file.write(json.dumps(run) + "\n")


if __name__ == "__main__":
    main()
