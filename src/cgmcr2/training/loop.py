"""The training loop: both stages of the paper's Algorithm 1."""

from __future__ import annotations

import copy
import dataclasses
import hashlib
import math
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from sklearn.exceptions import ConvergenceWarning

from cgmcr2._device import choose_device, choose_precision
from cgmcr2._random import Stream, generator, sample_rows
from cgmcr2._threads import torch_threads
from cgmcr2.consensus.partitions import Float32, Int64
from cgmcr2.consensus.views import COMPONENTS, Views
from cgmcr2.distributed import ONE_PROCESS, Group
from cgmcr2.features.sources import FeatureSource, check_finite, read_rows, row_blocks, space_widths
from cgmcr2.model import Network

from .batches import Batches
from .checkpoint import Checkpoints
from .cluster_modules import BatchClustering, ClusterHead, ClusterModule
from .collapse import warn_if_collapsed
from .empty_clusters import fill_empty_clusters
from .guide import ConsensusGuide
from .interrupt import Interrupt
from .log import TERMS, TrainingLog
from .monitor import Record
from .neighbour_graph import NeighbourGraph
from .precompute import Precomputed, precompute
from .reader import BatchReader
from .schedule import Schedule
from .settings import ObjectiveName, Settings
from .state import TrainingState
from .step import TrainingStep

FLUSH_STEPS = 20  # steps between fetches of the metrics from the device and checks for collapse
CHECKPOINT_SECONDS = 30.0
# Consecutive non-finite steps that end training, checked when metrics are fetched. The released code never stops: its
# cut is NaN in a batch with a negative volume and can be finite again in the next.
MAX_SKIPPED: dict[ObjectiveName, int] = {"cgmcr2": 5, "released": 100}

OnEpoch = Callable[[int, Network, int], None]


@dataclasses.dataclass
class Trained:
    """A trained network in evaluation mode, the selected head, the metrics of every step, and the views."""

    network: Network
    head: int
    history: list[Record]
    finished: bool  # False if Ctrl-C ended the training early
    views: Views | None  # None without a projection, or if it is too narrow to judge the clusters by


def train(
    source: FeatureSource,
    n_clusters: int,
    settings: Settings,
    *,
    partition: Int64 | None = None,
    seed: int = 0,
    device: str = "auto",
    precision: str = "auto",
    folder: Path | None = None,
    progress: bool = False,
    tensorboard: bool = False,
    on_epoch: OnEpoch | None = None,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
    group: Group = ONE_PROCESS,
) -> Trained:
    """Train a network on the rows of ``source (n, D)``.

    Parameters
    ----------
    source : features (n, D)
    n_clusters : k
    settings : every setting of the training, see ``resolve``
    partition : (n,) clusters to guide the training instead of the consensus partition
    seed : random seed; results are reproducible on the same machine
    device, precision : see ``CgMCR2``
    folder : where to keep checkpoints and ``metrics.jsonl``; an interrupted run is resumed, bit for bit
    progress : show a progress bar
    tensorboard : write TensorBoard logs to ``folder``
    on_epoch : called as ``on_epoch(epoch, network, head)`` after each epoch (1, 2, ...) and at the end, with a copy of
        the current network in evaluation mode
    checkpoint_seconds : seconds between checkpoints
    group : the processes that train together, each with the same arguments; the first one writes to ``folder``
    """
    n_given, D, spaces = source.shape[0], source.shape[1], space_widths(source)
    if partition is not None and not settings.consensus_weight:
        raise ValueError("A given partition guides the training only with consensus_weight > 0; use the preset auto.")
    if settings.sample and n_given > settings.sample:
        rows = sample_rows(n_given, settings.sample, generator(seed, Stream.TRAINING_ROWS))
        source = read_rows(source, rows)
        partition = None if partition is None else partition[rows]
    n = source.shape[0]
    torch_device = choose_device(device)
    dtype = choose_precision(precision, torch_device, settings.hidden_dim)
    schedule = Schedule(settings, n)
    identity = {
        "settings": dataclasses.asdict(settings),
        "seed": seed,
        "n": n_given,
        "D": D,
        "spaces": list(spaces),
        "k": n_clusters,
        "dtype": str(dtype),
        "data": check_finite(source) if folder or group.size > 1 else None,
        "partition": None if partition is None else hashlib.sha256(partition.tobytes()).hexdigest(),
    }
    if group.on_first(lambda: identity) != identity:
        raise ValueError("The processes were given different data or settings; give each of them all rows.")
    checkpoints = Checkpoints(folder, identity, group)
    folder = folder if group.rank == 0 else None
    progress = progress and group.rank == 0

    def compute_inputs() -> Precomputed:
        with torch_threads(n):
            return precompute(source, n_clusters, settings, seed, spaces=spaces, partition=partition, progress=progress)

    inputs = checkpoints.load_precomputed()
    if inputs is None:
        inputs = group.on_first(compute_inputs)
        checkpoints.save_precomputed(inputs)
    state = TrainingState.create(settings, spaces, n_clusters, min(settings.s, n), inputs, seed, torch_device)
    checkpoints.restore(state)
    cluster_module = _cluster_module(settings, n_clusters, schedule, seed, torch_device)
    training_step = TrainingStep(
        settings,
        schedule,
        cluster_module,
        _guide(settings, schedule, inputs, torch_device),
        NeighbourGraph(inputs.neighbours) if settings.graph == "whole" and inputs.neighbours is not None else None,
        torch_device,
        dtype,
        group,
    )
    batches = Batches(
        n,
        schedule.steps_per_epoch,
        seed,
        batch_size=settings.batch_size if settings.schedule == "released" else None,
        neighbours=inputs.neighbours,
    )
    with torch_threads(n):
        projected = _project(state.network, source, torch_device) if settings.projection else source
    collapsed, saved_at = False, time.monotonic()

    with (
        torch_threads(n),
        Interrupt() as interrupt,
        BatchReader(projected, batches, torch_device, schedule.total_steps, group) as reader,
        TrainingLog(
            folder,
            schedule.total_steps,
            state.step,
            digest=state.metrics_digest,
            progress=progress,
            tensorboard=tensorboard and group.rank == 0,
        ) as log,
    ):
        while state.step < schedule.total_steps:
            training_step(state, reader.read(state.step), batches.rows(state.step))

            last = state.step == schedule.total_steps
            epochs = state.step / schedule.steps_per_epoch
            if on_epoch and (epochs.is_integer() or last):
                on_epoch(math.ceil(epochs), copy.deepcopy(state.network).eval(), state.monitor.best_head())

            stop = group.any(last or interrupt.requested)
            flush = state.step % FLUSH_STEPS == 0
            save = stop or time.monotonic() - saved_at > checkpoint_seconds
            if not (flush or save):
                continue
            log.write(state.monitor.flush(), n_clusters)
            skipped = int(state.monitor.skipped)
            if (flush or stop) and skipped >= MAX_SKIPPED[settings.objective]:  # not whenever a checkpoint is due
                message = _non_finite_message(log.history[-1], settings, dtype, skipped)
                raise FloatingPointError(message)
            if flush and cluster_module.learns and inputs.partition is None and not collapsed:
                collapsed = warn_if_collapsed(state.monitor, state.step, settings.gamma)
            if save:
                state.metrics_digest = log.digest
                checkpoints.save(state)
                saved_at = time.monotonic()
            if stop:
                break

    finished = state.step == schedule.total_steps
    _warn_about_steps(log.history, state.step, schedule.total_steps)
    network = state.network.eval()
    cluster_module.finish(network, source)
    if inputs.partition is not None and finished:
        fill_empty_clusters(network, state.monitor.best_head(), projected, inputs.partition)
    history = group.on_first(lambda: log.history)  # an interrupted run's is in the folder
    views = inputs.views(spaces) if settings.projection >= min(COMPONENTS, D) else None
    return Trained(network, state.monitor.best_head(), history, finished, views)


def _warn_about_steps(history: list[Record], steps: int, total_steps: int) -> None:
    """Warn about skipped steps, and if the training was interrupted."""
    skipped = sum(not record["finite"] for record in history)
    if skipped:
        message = f"Skipped {skipped} of {steps} steps because their gradients were not finite."
        warnings.warn(message, ConvergenceWarning, stacklevel=3)
    if steps < total_steps:
        message = f"Interrupted after step {steps} of {total_steps}; returning the current model."
        warnings.warn(message, ConvergenceWarning, stacklevel=3)


@torch.no_grad()
def _project(network: Network, source: FeatureSource, device: torch.device) -> Float32:
    """The rows of ``source (n, D)`` after the fixed projection of the network (n, p), computed once."""
    blocks = (torch.from_numpy(read_rows(source, rows)).to(device) for rows in row_blocks(source.shape[0]))
    return np.concatenate([network.project(X).cpu() for X in blocks])


def _cluster_module(
    settings: Settings, n_clusters: int, schedule: Schedule, seed: int, device: torch.device
) -> ClusterModule:
    if settings.cluster_module == "head":
        return ClusterHead(settings, seed, device)
    return BatchClustering(settings, n_clusters, schedule.warmup_steps, seed)


def _guide(settings: Settings, schedule: Schedule, inputs: Precomputed, device: torch.device) -> ConsensusGuide | None:
    if inputs.partition is None:
        return None
    return ConsensusGuide(inputs.partition, settings.consensus_weight, schedule.warmup_steps, device)


def _non_finite_message(record: Record, settings: Settings, dtype: torch.dtype, skipped: int) -> str:
    terms = [name for name in TERMS if record[name] is None]
    cause = " and ".join(terms) if terms else "the loss" if record["loss"] is None else "the gradient"
    advice = "lower the learning rate" + (" or use precision='float32'" if dtype != torch.float32 else "")
    return (
        f"Training stopped at step {record['step']}: {cause} was not finite in {skipped} consecutive steps "
        f"(learning rate {settings.lr:g}, eps {settings.eps:g}, gamma {settings.gamma:g}); {advice}."
    )
