"""Checkpoints of training: safetensors files in the run folder.

Batches, noise and learning rate follow from (seed, step), so weights, optimizer state, running statistics and the step
are all that is needed to resume bit for bit. What is computed before the first step is kept in a file of its own.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
import xxhash
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from cgmcr2._files import replacing
from cgmcr2.distributed import ONE_PROCESS, Group

from .precompute import Precomputed
from .state import TrainingState

Tensors = dict[str, Tensor]


class Checkpoints:
    """The checkpoint files of one training run.

    Args:
        folder: the run folder; None keeps no checkpoints.
        identity: settings, seed and data of the run; files of another run are refused.
        group: the processes that train; the first one reads and writes the files.
    """

    def __init__(self, folder: Path | None, identity: dict[str, Any], group: Group = ONE_PROCESS) -> None:
        self.folder, self.identity, self.group = folder, identity, group

    def load_precomputed(self) -> Precomputed | None:
        """What an interrupted run has computed from the data, or None."""
        tensors = self._load("precomputed.safetensors")[0]
        return Precomputed.from_tensors(tensors) if tensors else None

    def save_precomputed(self, inputs: Precomputed) -> None:
        """Keep what was computed from the data."""
        tensors = inputs.tensors()
        if tensors:
            self._save("precomputed.safetensors", tensors, {})

    def save(self, state: TrainingState) -> None:
        """Write a checkpoint of ``state``."""
        modules = state.modules()
        tensors = {f"modules.{name}": tensor for name, tensor in modules.state_dict().items()}
        tensors |= {f"monitor.{name}": tensor for name, tensor in state.monitor.state().items()}
        if state.average is not None:
            tensors |= {f"average.{name}": tensor for name, tensor in state.average.state_dict().items()}
        for name, parameter in modules.named_parameters():
            for key, value in state.optimizer.state.get(parameter, {}).items():
                tensors[f"optimizer.{key}.{name}"] = value
        progress = {
            "step": state.step,
            "revivals": state.revivals,
            "gamma": state.objective.gamma,
            "metrics": state.metrics_digest,
        }
        self._save("checkpoint.safetensors", tensors, progress)

    def restore(self, state: TrainingState) -> None:
        """Restore ``state`` from the checkpoint, if there is one."""
        tensors, progress = self._load("checkpoint.safetensors")
        if not progress:
            return
        try:
            _restore(state, tensors, progress)
        except (RuntimeError, KeyError, TypeError, ValueError, AttributeError) as error:
            raise _unreadable(self.folder, "checkpoint.safetensors", error) from error

    def _save(self, name: str, tensors: Tensors, progress: dict[str, Any]) -> None:
        if self.folder is None or self.group.rank > 0:
            return
        copies = {key: tensor.detach().cpu().contiguous().clone() for key, tensor in tensors.items()}
        metadata = {"progress": json.dumps(progress), "identity": json.dumps(self.identity)}
        with replacing(self.folder / name) as temporary:
            save_file(copies, temporary, metadata={**metadata, "digest": _digest(copies, metadata)})

    def _load(self, name: str) -> tuple[Tensors, dict[str, Any]]:
        return self.group.on_first(lambda: self._read(name))

    def _read(self, name: str) -> tuple[Tensors, dict[str, Any]]:
        path = None if self.folder is None else self.folder / name
        if path is None or not path.exists():
            return {}, {}
        try:
            with safe_open(path, framework="pt") as file:
                tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118 - not a dict
                metadata = dict(file.metadata())
            if metadata.pop("digest") != _digest(tensors, metadata):
                raise ValueError("its content has changed since it was written")
            progress, identity = (json.loads(metadata[key]) for key in ("progress", "identity"))
        except (SafetensorError, KeyError, TypeError, ValueError) as error:
            raise _unreadable(self.folder, name, error) from error
        if identity != self.identity:
            raise ValueError(
                f"{self.folder} holds a training run with other settings or data "
                f"({_difference(identity, self.identity)}); choose another folder, or delete it."
            )
        return tensors, progress


def _restore(state: TrainingState, tensors: Tensors, progress: dict[str, Any]) -> None:
    """Set ``state`` to the tensors and the progress of a checkpoint."""
    parts: dict[str, Tensors] = {"modules": {}, "monitor": {}, "average": {}, "optimizer": {}}
    for name, tensor in tensors.items():
        part, _, key = name.partition(".")
        parts[part][key] = tensor
    modules = state.modules()
    modules.load_state_dict(parts["modules"])
    if state.average is not None:
        state.average.load_state_dict(parts["average"])
    parameters = dict(modules.named_parameters())
    for name, tensor in parts["optimizer"].items():
        key, _, parameter = name.partition(".")
        state.optimizer.state[parameters[parameter]][key] = tensor.to(parameters[parameter].device)
    state.monitor.load(parts["monitor"])
    state.step, state.revivals = progress["step"], progress["revivals"]
    state.objective.gamma = progress["gamma"]
    state.metrics_digest = progress["metrics"]


def _digest(tensors: Tensors, metadata: dict[str, str]) -> str:
    """The XXH3-128 digest of names, types, shapes and values of ``tensors``, and of ``metadata``."""
    state = xxhash.xxh3_128(json.dumps(metadata, sort_keys=True).encode())
    for name, tensor in sorted(tensors.items()):
        state.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        state.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return state.hexdigest()


def _unreadable(folder: Path | None, name: str, error: Exception) -> ValueError:
    reason = (str(error) or type(error).__name__).splitlines()[0].rstrip(":.")
    return ValueError(
        f"{folder}/{name} is not a readable checkpoint ({reason}); delete it to train from the beginning."
    )


def remove_checkpoints(folder: Path) -> None:
    """Delete the checkpoint files of a finished run."""
    for name in ("checkpoint.safetensors", "precomputed.safetensors"):
        (folder / name).unlink(missing_ok=True)


def _difference(old: dict[str, Any], new: dict[str, Any]) -> str:
    flat_old, flat_new = {**old, **old["settings"]}, {**new, **new["settings"]}
    names = [name for name in flat_new if name != "settings" and flat_old.get(name) != flat_new[name]]
    return "; ".join(f"{name} was {flat_old.get(name)}, is {flat_new[name]} now" for name in names[:3])
