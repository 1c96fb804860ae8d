"""Train with the paper's settings and record the data for the figures after every epoch."""

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
from cgmcr2._random import Stream, generator, sample_rows
from cgmcr2.evaluation import Protocol, score_labels
from cgmcr2.features.sources import FeatureFile, Subset, read_rows
from cgmcr2.model import Network
from cgmcr2.training import paper_settings, resolve, train
from cgmcr2.training.schedule import Schedule

from .curves import Curves
from .matrices import Snapshot

EPOCHS = (1, 2, 5, 10, 20)  # snapshots in the paper's Figure 2
SNAPSHOT_ROWS = 1000  # maximum number of test rows in matrices and maps
BLOCK = 2048  # rows per forward pass

Float32 = npt.NDArray[np.float32]
Int64 = npt.NDArray[np.int64]


@dataclasses.dataclass
class Observation:
    """Data of a training run for the figures.

    ``X (m, D)``, ``labels (m,)`` and ``snapshots`` contain at most ``SNAPSHOT_ROWS`` test rows; the scores in
    ``curves`` are computed on all test rows.
    """

    X: Float32
    labels: Int64
    snapshots: list[Snapshot]
    curves: Curves
    protocol: str


def observe_training(
    dataset: str,
    file: FeatureFile,
    *,
    seed: int = 0,
    settings: dict[str, Any] | None = None,
    max_rows: int | None = None,
    epochs: Sequence[int] = EPOCHS,
    cache: Path | None = None,
    progress: bool = False,
) -> Observation:
    """Train on split 0 of ``file`` and evaluate split 1 after each epoch; without a split, all rows are used for both.

    Parameters
    ----------
    dataset : str
        Data set whose settings in the paper are used.
    file : FeatureFile
        Features and labels. Labels are used for scores and to order rows.
    seed : int
        Random seed.
    settings : dict
        Settings that replace the paper's.
    max_rows : int, optional
        Maximum number of training rows.
    epochs : sequence of int
        Epochs to take a snapshot of, in addition to the last.
    cache : path, optional
        Cache folder. A cached observation with the same settings is returned without training.
    progress : bool
        Show a progress bar.

    Returns
    -------
    observation : Observation
    """
    if file.labels is None:
        raise ValueError(f"The features of {dataset} have no labels, which the figure needs; add a label array.")
    k, values = paper_settings(dataset)
    rng = generator(seed, Stream.FIGURES)
    fit_rows, test_rows, protocol = _select_rows(file, max_rows, rng)
    complete = resolve("paper", len(fit_rows), k, file.features.shape[1], {**values, **(settings or {})})
    identity = {
        "dataset": dataset,
        "seed": seed,
        "settings": dataclasses.asdict(complete),
        "protocol": protocol,
        "epochs": list(epochs),
    }
    path = cache / f"{dataset}-{seed}.npz" if cache else None
    if path and path.exists() and (cached := _read(path, identity)):
        return cached

    schedule = Schedule(complete, len(fit_rows))
    last_epoch = -(-schedule.total_steps // schedule.steps_per_epoch)
    classes = np.unique(np.asarray(file.labels)[test_rows], return_inverse=True)[1].astype(np.int64)
    sample = sample_rows(len(test_rows), SNAPSHOT_ROWS, rng)
    X = read_rows(file.features, test_rows)
    snapshots: list[Snapshot] = []
    scores: dict[str, list[float]] = {"acc": [], "nmi": []}

    def record_epoch(epoch: int, network: Network, head: int) -> None:
        Z, Pi = _forward(network, head, X)
        epoch_scores = score_labels(classes, Pi.argmax(1))
        scores["acc"].append(epoch_scores.acc)
        scores["nmi"].append(epoch_scores.nmi)
        if epoch in epochs or epoch == last_epoch:
            snapshots.append(Snapshot(epoch, Z[sample], Pi[sample], epoch_scores.acc))

    source = Subset(file.features, fit_rows)
    history = train(source, k, complete, seed=seed, progress=progress, on_epoch=record_epoch).history
    terms = {name: [float(record[name] or 0) for record in history] for name in ("R", "Rc", "cut", "penalty")}
    terms["Lncut"] = [cut + penalty for cut, penalty in zip(terms.pop("cut"), terms.pop("penalty"), strict=True)]
    curves = Curves(terms, scores, schedule.steps_per_epoch, schedule.warmup_steps)
    observation = Observation(X[sample], classes[sample], snapshots, curves, protocol)
    if path:
        _write(path, observation, identity)
    return observation


def _select_rows(file: FeatureFile, max_rows: int | None, rng: np.random.Generator) -> tuple[Int64, Int64, str]:
    """Return the rows to fit, the rows to score and the protocol."""
    fit_rows, test_rows = file.rows("train"), file.rows("test")
    if not len(fit_rows) or not len(test_rows):
        fit_rows = test_rows = file.rows("all")
    if max_rows:
        fit_rows = fit_rows[sample_rows(len(fit_rows), max_rows, rng)]
    names = ("all rows", "all rows") if np.array_equal(fit_rows, test_rows) else ("split 0", "split 1")
    return fit_rows, test_rows, str(Protocol(names[0], len(fit_rows), names[1], len(test_rows)))


def _forward(network: Network, head: int, X: Float32) -> tuple[Float32, Float32]:
    """Return the embedding ``Z (n, d)`` and the memberships ``Pi (n, k)`` of one head."""
    device = next(network.parameters()).device
    with torch.inference_mode():
        blocks = [network.embed(torch.from_numpy(rows).to(device)) for rows in np.split(X, range(BLOCK, len(X), BLOCK))]
    Z = torch.cat([Z for Z, _ in blocks]).cpu().numpy()
    Pi = torch.cat([logits[head].softmax(-1) for _, logits in blocks]).cpu().numpy()
    return Z, Pi


def _write(path: Path, observation: Observation, identity: dict[str, Any]) -> None:
    metadata = {
        "identity": identity,
        "curves": dataclasses.asdict(observation.curves),
        "snapshots": [[snapshot.epoch, snapshot.acc] for snapshot in observation.snapshots],
    }
    arrays = {f"{name}-{s.epoch}": getattr(s, name) for s in observation.snapshots for name in ("Z", "Pi")}
    with replacing(path) as temporary:
        np.savez_compressed(
            temporary, metadata=json.dumps(metadata), X=observation.X, labels=observation.labels, **arrays
        )


def _read(path: Path, identity: dict[str, Any]) -> Observation | None:
    """Return the cached observation, or None if its settings differ."""
    with np.load(path, allow_pickle=False) as archive:
        if "metadata" not in archive:
            return None
        metadata = json.loads(str(archive["metadata"]))
        if metadata["identity"] != json.loads(json.dumps(identity)):
            return None
        snapshots = [
            Snapshot(epoch, archive[f"Z-{epoch}"], archive[f"Pi-{epoch}"], acc) for epoch, acc in metadata["snapshots"]
        ]
        curves = Curves(**metadata["curves"])
        return Observation(archive["X"], archive["labels"], snapshots, curves, identity["protocol"])
