"""The training: one loop, top to bottom, through the two stages of the paper's Algorithm 1."""

from __future__ import annotations

import copy
import dataclasses
import math
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from sklearn.exceptions import ConvergenceWarning
from torch import Tensor, nn
from tqdm.auto import tqdm

from cgmcr2._device import autocast, choose_device, choose_precision
from cgmcr2._random import mix
from cgmcr2.features.sources import FeatureSource, read_rows
from cgmcr2.model import Network, NetworkConfig, gumbel_softmax
from cgmcr2.objectives import CgMCR2Objective, ReleasedObjective, Terms

from .average import Average
from .batches import Batches
from .checkpoint import load_checkpoint, restore, save_checkpoint
from .cluster_modules import memberships, set_centroids
from .collapse import watch_collapse
from .graph import NeighbourGraph
from .interrupt import Interrupt
from .monitor import MetricsFile, Monitor, Record
from .reader import BatchReader
from .schedule import Schedule
from .settings import Settings
from .start import prepare

FLUSH_STEPS = 20  # figures are fetched from the device, and collapse is looked for, this often
CHECKPOINT_SECONDS = 30.0
EMA_START = 20  # the first steps are no part of the running mean
GUIDE_LEFT = 0.3  # of the first partition's weight, to which it falls over the warm-up
MAX_SKIPPED = 5  # steps in a row with a loss that is not finite before training gives up

Watch = Callable[[int, Network, int], None]


@dataclasses.dataclass
class Trained:
    """What a training leaves: the network in evaluation mode, the head to use, and every step's figures."""

    network: Network
    head: int
    history: list[Record]
    gamma: float  # as it was in the end; ``act_on_collapse`` may have raised it
    finished: bool  # False where Ctrl-C ended it early


def train(
    source: FeatureSource,
    n_clusters: int,
    settings: Settings,
    *,
    seed: int = 0,
    device: str = "auto",
    precision: str = "auto",
    folder: Path | None = None,
    progress: bool = False,
    tensorboard: bool = False,
    watch: Watch | None = None,
) -> Trained:
    """Train a network on the rows of ``source (n, D)``.

    With a ``folder``, checkpoints and ``metrics.jsonl`` are kept there, and a training that was cut short goes on from
    its last checkpoint, to the same result bit for bit. ``watch(epoch, network, head)`` is called after each epoch
    (1, 2, ...) and at the end, with a copy of the network as training would return it there.
    """
    n_given, D = source.shape[0], source.shape[1]
    if settings.sample and n_given > settings.sample:
        rows = np.random.default_rng([seed, 1]).choice(n_given, settings.sample, replace=False)
        source = read_rows(source, np.sort(rows))
    n = source.shape[0]
    where = choose_device(device)
    dtype = choose_precision(precision, where)
    plan = Schedule(settings, n)

    with torch.random.fork_rng(devices=[]):  # the caller's random state is not ours to move
        torch.manual_seed(seed)
        network = Network(_network_config(settings, D, n_clusters))
    start = prepare(source, n_clusters, settings, seed, progress=progress)
    if settings.projection and start.views:
        network.set_projection(start.views.mean, start.views.white if start.white else start.views.standard)
    graph = NeighbourGraph(start.neighbours) if settings.graph == "whole" and start.neighbours is not None else None
    guide = None if start.partition is None else torch.from_numpy(start.partition).to(where)
    objective = _objective(settings, min(settings.s, n))
    modules = nn.ModuleDict({"network": network, "objective": objective}).to(where).train()
    fused = where.type != "mps"
    optimizer = torch.optim.Adam(modules.parameters(), lr=settings.lr, weight_decay=settings.weight_decay, fused=fused)
    average = Average(network, settings.ema)
    monitor = Monitor(settings.n_heads, n_clusters, where)
    batches = Batches(
        n,
        plan.steps_per_epoch,
        seed,
        batch_size=settings.batch_size if settings.schedule == "reference" else None,
        neighbours=start.neighbours,
    )

    facts: dict[str, Any] = {"step": 0, "revivals": 0, "gamma": settings.gamma}
    identity = {
        "settings": dataclasses.asdict(settings),
        "seed": seed,
        "n": n_given,
        "D": D,
        "k": n_clusters,
        "dtype": str(dtype),
    }
    checkpoint = folder / "checkpoint.safetensors" if folder else None
    if checkpoint and checkpoint.exists():
        tensors, saved = load_checkpoint(checkpoint)
        if saved["identity"] != identity:
            raise ValueError(
                f"{folder} holds a training with other settings or data ({_difference(saved['identity'], identity)}); "
                "choose another folder, or delete this one."
            )
        kept = restore(tensors, modules, optimizer)
        average.mean = {name[5:]: tensor.to(where) for name, tensor in kept.items() if name.startswith("mean.")}
        monitor.load(kept)
        facts = saved["facts"]
        objective.gamma = facts["gamma"]
    metrics = MetricsFile(folder / "metrics.jsonl", facts["step"]) if folder else None
    history = list(metrics.kept) if metrics else []
    board = _tensorboard(folder) if tensorboard else None
    generator = torch.Generator(where)
    saved_at, flushed_at = time.monotonic(), time.perf_counter()
    has_head = settings.cluster_module == "head"

    with (
        Interrupt() as interrupt,
        BatchReader(source, batches, where, plan.total_steps) as reader,
        tqdm(total=plan.total_steps, initial=facts["step"], disable=not progress, unit="step", leave=False) as bar,
    ):
        for step in range(facts["step"], plan.total_steps):
            stage, lr = plan.stage(step), plan.lr(step)
            X = reader.read(step)  # (n, D)
            with autocast(where, dtype):
                Z, logits = network(X)  # (n, d), (h, n, k)
            fine_tuning = stage == "fine-tuning"
            record: Record = {"step": step, "epoch": step // plan.steps_per_epoch, "stage": stage, "lr": lr}
            if not has_head and not fine_tuning:  # without a gradient there is no cut to learn from
                Pi = Z.new_full((1, len(Z), n_clusters), 1 / n_clusters, dtype=torch.float32)
            elif not has_head:
                began = time.perf_counter()
                Pi = memberships(Z, n_clusters, settings.cluster_module, settings.s, mix(seed, step))
                record["module_seconds"] = round(time.perf_counter() - began, 6)
            elif settings.membership == "gumbel":
                Pi = gumbel_softmax(logits, settings.temperature, generator=generator.manual_seed(mix(seed, step)))
            else:
                Pi = (logits.float() / settings.temperature).softmax(-1)
            use_cut = has_head and (not fine_tuning or settings.cut_in_finetuning)
            A = graph.edges(batches.rows(step), where) if graph and use_cut else None
            terms: Terms = objective(Z, Pi, use_cluster_rate=fine_tuning, use_cut=use_cut, A=A)
            loss = terms.total.mean()  # over the heads
            if guide is not None:
                targets = guide[torch.from_numpy(batches.rows(step)).to(where)]  # (n,)
                guidance = F.cross_entropy(logits.float().flatten(0, 1), targets.repeat(settings.n_heads))
                weight = settings.guide * max(GUIDE_LEFT, 1 - step / max(plan.warmup_steps, 1))
                loss = loss + weight * guidance

            optimizer.zero_grad(set_to_none=True)
            dZ, dlogits = _backward(loss, Z, logits)
            finite = loss.isfinite() & dZ.isfinite().all() & dlogits.isfinite().all()
            for group in optimizer.param_groups:
                group["lr"] = lr
            if fused:
                optimizer.found_inf = (~finite).float()  # type: ignore[attr-defined] # Adam then skips, on the device
                optimizer.step()
            elif finite:
                optimizer.step()

            if settings.ema and step >= EMA_START:
                average.update()
            figures = torch.stack([t.detach().expand(settings.n_heads) for t in terms[:5]])
            monitor.add(record, figures, Pi.detach(), finite, first_of_stage=step in (0, plan.warmup_steps))
            facts["step"] = step + 1
            epochs = facts["step"] / plan.steps_per_epoch
            if watch and (epochs.is_integer() or facts["step"] == plan.total_steps):
                watch(math.ceil(epochs), _as_it_is(network, average), monitor.best_head())

            at_interval = (step + 1) % FLUSH_STEPS == 0
            stopping = step + 1 == plan.total_steps or interrupt.requested
            due = checkpoint is not None and time.monotonic() - saved_at > CHECKPOINT_SECONDS
            if not (at_interval or stopping or due):
                continue
            records = monitor.flush()
            seconds = (time.perf_counter() - flushed_at) / len(records)  # no step is waited for: their mean
            history += [{**each, "seconds": round(seconds, 6)} for each in records]
            if metrics:  # without times: the same run writes the same file
                metrics.append([{name: each[name] for name in each if name != "module_seconds"} for each in records])
            if board:
                _write_board(board, records)
            bar.update(len(records))
            bar.set_description(stage, refresh=False)
            bar.set_postfix(_postfix(records[-1], n_clusters), refresh=True)
            if int(monitor.skipped) >= MAX_SKIPPED:
                raise FloatingPointError(_why_not_finite(records[-1], figures, settings, dtype))
            if at_interval and not stopping and has_head:
                watch_collapse(monitor, network, objective, optimizer, settings, facts, seed)
            if checkpoint and (due or stopping):
                kept = {**monitor.state(), **{f"mean.{name}": tensor for name, tensor in average.mean.items()}}
                save_checkpoint(checkpoint, modules, optimizer, kept, {"facts": facts, "identity": identity})
                saved_at = time.monotonic()
            if stopping:
                break
            flushed_at = time.perf_counter()

    if board:
        board.close()
    average.use()
    network.eval()
    if not has_head:
        set_centroids(network, source, n_clusters, settings, seed)
    finished = facts["step"] == plan.total_steps
    if not finished:
        warnings.warn(
            f"Stopped by Ctrl-C after step {facts['step']} of {plan.total_steps}; the model is kept as it is.",
            ConvergenceWarning,
            stacklevel=2,
        )
    return Trained(network, monitor.best_head(), history, facts["gamma"], finished)


def _as_it_is(network: Network, average: Average) -> Network:
    """A copy in evaluation mode, with the mean of the weights where one is kept: the training's own is not touched."""
    seen = copy.deepcopy(network)
    seen.load_state_dict({**network.state_dict(), **average.mean})
    return seen.eval()


def _network_config(settings: Settings, D: int, n_clusters: int) -> NetworkConfig:
    return NetworkConfig(
        in_dim=D,
        n_clusters=n_clusters,
        hidden_dim=settings.hidden_dim,
        embedding_dim=settings.embedding_dim,
        depth=settings.depth,
        n_heads=settings.n_heads,
        projection=min(settings.projection, D) or None,
        centroids=settings.cluster_module != "head",
        bn_momentum=settings.bn_momentum,
    )


def _objective(settings: Settings, s: int) -> CgMCR2Objective | ReleasedObjective:
    if settings.objective == "reference":
        return ReleasedObjective(settings.eps, settings.gamma, s)
    return CgMCR2Objective(settings.eps, settings.gamma, s, affinity=settings.affinity, penalty=settings.penalty)


def _backward(loss: Tensor, Z: Tensor, logits: Tensor) -> tuple[Tensor, Tensor]:
    """``loss.backward()``, and the gradients that enter the network: where they are finite, so are the parameters'."""
    Z.retain_grad()
    logits.retain_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    zero = loss.new_zeros(1)
    return zero if Z.grad is None else Z.grad, zero if logits.grad is None else logits.grad


def _why_not_finite(record: Record, figures: Tensor, settings: Settings, dtype: torch.dtype) -> str:
    broken = [
        name
        for name, value in zip(("loss", "R", "Rc", "cut", "penalty"), figures, strict=True)
        if not value.isfinite().all()
    ]
    what = f"the term {', '.join(broken[1:]) or broken[0]}" if broken else "the gradient"
    advice = "lower the learning rate" + (" or use precision='float32'" if dtype != torch.float32 else "")
    return (
        f"Training stopped at step {record['step']}: {what} was not finite in {MAX_SKIPPED} steps in a row "
        f"(learning rate {settings.lr:g}, eps {settings.eps:g}, gamma {settings.gamma:g}); {advice}."
    )


def _postfix(record: Record, k: int) -> dict[str, str]:
    shown = {name: f"{record[name]:.3g}" for name in ("R", "Rc", "cut", "penalty") if record[name] is not None}
    return {**shown, "live": f"{max(record['live_clusters'])}/{k}"}


def _difference(old: dict[str, Any], new: dict[str, Any]) -> str:
    flat_old, flat_new = {**old, **old["settings"]}, {**new, **new["settings"]}
    names = [name for name in flat_new if name != "settings" and flat_old.get(name) != flat_new[name]]
    return "; ".join(f"{name} {flat_old.get(name)} there, {flat_new[name]} now" for name in names[:3])


def _tensorboard(folder: Path | None) -> Any:
    if folder is None:
        raise ValueError("TensorBoard needs a folder to write to; give one.")
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise ImportError("TensorBoard is not installed; install it with: pip install 'cgmcr2[log]'") from error
    return SummaryWriter(str(folder / "tensorboard"))


def _write_board(board: Any, records: list[Record]) -> None:
    for record in records:
        for name in ("loss", "R", "Rc", "cut", "penalty", "lr"):
            if record[name] is not None:
                board.add_scalar(name, record[name], record["step"])
        board.add_scalar("live_clusters", max(record["live_clusters"]), record["step"])
