"""One training with the paper's settings, looked at after every epoch: what the figures are drawn from."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from cgmcr2._files import replacing
from cgmcr2.evaluation import Protocol, score_labels
from cgmcr2.experiments.plots import Curves, Snapshot
from cgmcr2.features.sources import FeatureFile, Subset, read_rows
from cgmcr2.model import Network
from cgmcr2.training import paper_settings, resolve, train
from cgmcr2.training.schedule import Schedule

EPOCHS = (1, 2, 5, 10, 20)  # of the paper's Figure 2
ROWS = 1000  # of those judged that are drawn

Float32 = npt.NDArray[np.float32]


@dataclasses.dataclass
class Observed:
    """``X (m, D)``, ``labels (m,)`` and a snapshot for each epoch that was asked for, of at most 1,000 judged rows; the
    curves, whose scores are of all judged rows."""

    X: Float32
    labels: npt.NDArray[np.int64]
    snapshots: list[Snapshot]
    curves: Curves
    protocol: str


def observe(
    dataset: str,
    file: FeatureFile,
    *,
    seed: int = 0,
    settings: dict[str, Any] | None = None,
    limit: int | None = None,
    epochs: Sequence[int] = EPOCHS,
    cache: Path | None = None,
    progress: bool = False,
) -> Observed:
    """Train on split 0 of ``file`` (at most ``limit`` rows of it) and look at split 1 after each epoch; without a split
    all rows are both. Labels order and judge. What was seen is kept in the folder ``cache`` and read from there.
    """
    if file.labels is None:
        raise ValueError(f"The features of {dataset} have no labels; the figure orders and judges by them.")
    k, values = paper_settings(dataset)
    trained, judged = file.rows("train"), file.rows("test")
    if not len(trained) or not len(judged):
        trained = judged = file.rows("all")
    random = np.random.default_rng([seed, 7])
    if limit and len(trained) > limit:
        trained = np.sort(random.choice(trained, limit, replace=False))
    source = Subset(file.features, trained)
    plan = resolve("paper", len(trained), k, file.features.shape[1], {**values, **(settings or {})})
    protocol = str(Protocol("split 0", len(trained), "split 1", len(judged)))
    if len(trained) and np.array_equal(trained, judged):
        protocol = str(Protocol("all rows", len(trained), "all rows", len(judged)))
    identity = {"dataset": dataset, "seed": seed, "settings": dataclasses.asdict(plan), "protocol": protocol}
    identity["epochs"] = list(epochs)
    kept = cache / f"{dataset}-{seed}.npz" if cache else None
    if kept and kept.exists() and (found := _read(kept, identity)):
        return found

    schedule = Schedule(plan, len(trained))
    last = -(-schedule.total_steps // schedule.steps_per_epoch)
    y = np.unique(np.asarray(file.labels)[judged], return_inverse=True)[1].astype(np.int64)
    shown = np.sort(random.choice(len(judged), min(ROWS, len(judged)), replace=False))
    X = read_rows(file.features, judged)
    snapshots: list[Snapshot] = []
    scores: dict[str, list[float]] = {"acc": [], "nmi": []}

    def watch(epoch: int, network: Network, head: int) -> None:
        where = next(network.parameters()).device
        with torch.inference_mode():
            blocks = [
                network.embed(torch.from_numpy(part).to(where)) for part in np.split(X, range(2048, len(X), 2048))
            ]
        Z = torch.cat([Z for Z, _ in blocks]).cpu().numpy()
        Pi = torch.cat([logits[head].softmax(-1) for _, logits in blocks]).cpu().numpy()
        judgement = score_labels(y, Pi.argmax(1))
        scores["acc"].append(judgement.acc)
        scores["nmi"].append(judgement.nmi)
        if epoch in epochs or epoch == last:
            snapshots.append(Snapshot(epoch, Z[shown], Pi[shown], judgement.acc))

    history = train(source, k, plan, seed=seed, progress=progress, watch=watch).history
    terms = {name: [float(line[name] or 0) for line in history] for name in ("R", "Rc", "cut", "penalty")}
    terms["Lncut"] = [cut + penalty for cut, penalty in zip(terms.pop("cut"), terms.pop("penalty"), strict=True)]
    curves = Curves(terms, scores, schedule.steps_per_epoch, schedule.warmup_steps)
    seen = Observed(X[shown], y[shown], snapshots, curves, protocol)
    if kept:
        _write(kept, seen, identity)
    return seen


def _write(path: Path, seen: Observed, identity: dict[str, Any]) -> None:
    facts = {
        "identity": identity,
        "curves": dataclasses.asdict(seen.curves),
        "snapshots": [[each.epoch, each.acc] for each in seen.snapshots],
    }
    arrays = {f"{name}-{each.epoch}": getattr(each, name) for each in seen.snapshots for name in ("Z", "Pi")}
    with replacing(path) as temporary:
        np.savez_compressed(temporary, facts=json.dumps(facts), X=seen.X, labels=seen.labels, **arrays)


def _read(path: Path, identity: dict[str, Any]) -> Observed | None:
    """What was kept, unless it was seen with other settings."""
    with np.load(path, allow_pickle=False) as archive:
        facts = json.loads(str(archive["facts"]))
        if facts["identity"] != json.loads(json.dumps(identity)):
            return None
        snapshots = [
            Snapshot(epoch, archive[f"Z-{epoch}"], archive[f"Pi-{epoch}"], acc) for epoch, acc in facts["snapshots"]
        ]
        return Observed(archive["X"], archive["labels"], snapshots, Curves(**facts["curves"]), identity["protocol"])
