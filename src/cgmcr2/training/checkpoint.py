"""Checkpoints of training: safetensors files in the run folder.

Batches, noise and learning rate follow from (seed, step), so weights, optimizer state, running statistics and the step
are all that is needed to resume bit for bit. What is computed before the first step is kept in a file of its own.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from .precompute import Precomputed
from .state import TrainingState
from .state_file import StateFiles, Tensors, load_optimizer, optimizer_tensors


class Checkpoints(StateFiles):
    """The checkpoint files of one training run."""

    def load_precomputed(self) -> Precomputed | None:
        """What an interrupted run has computed from the data; None if nothing, or by a version with other inputs."""
        tensors = self.read("precomputed.safetensors")[0]
        known = {field.name for field in dataclasses.fields(Precomputed)}
        return Precomputed.from_tensors(tensors) if tensors and tensors.keys() <= known else None

    def save_precomputed(self, inputs: Precomputed) -> None:
        """Keep what was computed from the data."""
        tensors = inputs.tensors()
        if tensors:
            self.write("precomputed.safetensors", tensors, {})

    def save(self, state: TrainingState) -> None:
        """Write a checkpoint of ``state``."""
        modules = state.modules()
        tensors = {f"modules.{name}": tensor for name, tensor in modules.state_dict().items()}
        tensors |= {f"monitor.{name}": tensor for name, tensor in state.monitor.state().items()}
        tensors |= optimizer_tensors(state.optimizer, modules)
        self.write("checkpoint.safetensors", tensors, {"step": state.step, "metrics": state.metrics_digest})

    def restore(self, state: TrainingState) -> None:
        """Restore ``state`` from the checkpoint, if there is one."""
        tensors, progress = self.read("checkpoint.safetensors")
        if not progress:
            return
        with self.reading("checkpoint.safetensors"):
            _restore(state, tensors, progress)


def _restore(state: TrainingState, tensors: Tensors, progress: dict[str, Any]) -> None:
    """Set ``state`` to the tensors and the progress of a checkpoint."""
    parts: dict[str, Tensors] = {"modules": {}, "monitor": {}, "optimizer": {}}
    for name, tensor in tensors.items():
        part, _, key = name.partition(".")
        parts[part][key] = tensor
    modules = state.modules()
    modules.load_state_dict(parts["modules"])
    load_optimizer(state.optimizer, modules, parts["optimizer"])
    state.monitor.load(parts["monitor"])
    state.step, state.metrics_digest = progress["step"], progress["metrics"]


def remove_checkpoints(folder: Path) -> None:
    """Delete the checkpoint files of a finished run."""
    for name in ("checkpoint.safetensors", "precomputed.safetensors"):
        (folder / name).unlink(missing_ok=True)
