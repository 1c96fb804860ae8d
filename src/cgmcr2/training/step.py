"""One training step: forward pass, objective, backward pass, update."""

from __future__ import annotations

import dataclasses
import time

import torch
from torch import Tensor

from cgmcr2._device import autocast
from cgmcr2.consensus.partitions import Int64
from cgmcr2.distributed import ONE_PROCESS, Group

from .cluster_modules import ClusterModule
from .guide import ConsensusGuide
from .monitor import Record
from .neighbour_graph import NeighbourGraph
from .schedule import Schedule
from .settings import Settings
from .state import TrainingState


@dataclasses.dataclass
class TrainingStep:
    """Minimises ``-R + Lncut`` in the warm-up and ``-R + Rc + Lncut`` in fine-tuning, one batch per call.

    The consensus guide, if there is one, is added to both. Cluster modules without a gradient have no cut.
    """

    settings: Settings
    schedule: Schedule
    cluster_module: ClusterModule
    guide: ConsensusGuide | None
    graph: NeighbourGraph | None  # None: use the affinity of the batch's Z
    device: torch.device
    dtype: torch.dtype  # autocast type
    group: Group = ONE_PROCESS

    def __call__(self, state: TrainingState, X: Tensor, rows: Int64) -> None:
        """Update ``state`` with this process's part ``X`` of the batch ``rows (n,)`` of the training data.

        With a projection in the settings, ``X`` is projected already, because the projection is fixed.
        """
        step, schedule, settings = state.step, self.schedule, self.settings
        stage, lr = schedule.stage(step), schedule.lr(step)
        fine_tuning = stage == "fine-tuning"
        record: Record = {"step": step, "epoch": step // schedule.steps_per_epoch, "stage": stage, "lr": lr}

        forward = state.network.from_projected if settings.projection else state.network
        with autocast(self.device, self.dtype):
            Z, logits = forward(X, self.group)
        Z, logits = self.group.gather(Z, len(rows)), self.group.gather(logits, len(rows), dim=1)  # (n, d), (h, n, k)
        start = time.perf_counter()
        Pi = self.cluster_module.memberships(Z, logits, step)  # (h, n, k)
        if not self.cluster_module.learns and fine_tuning:
            record["module_seconds"] = round(time.perf_counter() - start, 6)

        use_cut = self.cluster_module.learns and (not fine_tuning or settings.cut_in_finetuning)
        A = self.graph.edges(rows, self.device) if self.graph is not None and use_cut else None
        terms = state.objective(Z, Pi, use_cluster_rate=fine_tuning, use_cut=use_cut, A=A)
        loss = terms.total.mean()  # over the heads
        guide = self.guide(logits, rows, step) if self.guide is not None else loss.new_zeros(())
        loss = loss + guide

        state.optimizer.zero_grad(set_to_none=True)
        finite = _backward(loss, Z, logits)
        self.group.sum_gradients(state.network.parameters())
        _update(state.optimizer, lr, finite)

        values = (terms.total + guide, *terms[1:5], guide)  # in the order of monitor.NAMES
        metrics = torch.stack([value.detach().expand(settings.n_heads) for value in values])
        state.monitor.add(record, metrics, Pi.detach(), finite, first_of_stage=step in (0, schedule.warmup_steps))
        state.step += 1


def _backward(loss: Tensor, Z: Tensor, logits: Tensor) -> Tensor:
    """Backpropagate; return whether the loss and the gradients of ``Z`` and ``logits`` are finite.

    They are checked instead of the parameters' gradients, which are larger.
    """
    Z.retain_grad()
    logits.retain_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    finite = loss.isfinite()
    for gradient in (Z.grad, logits.grad):
        if gradient is not None:
            finite = finite & gradient.isfinite().all()
    return finite


def _update(optimizer: torch.optim.Adam, lr: float, finite: Tensor) -> None:
    """Take an Adam step with learning rate ``lr``; skip it if not ``finite``."""
    for group in optimizer.param_groups:
        group["lr"] = lr
    if optimizer.defaults["fused"]:
        optimizer.found_inf = (~finite).float()  # type: ignore[attr-defined] # fused Adam skips on the device
        optimizer.step()
    elif finite:
        optimizer.step()
