"""A training on disk: one safetensors file with weights, Adam's moments, running figures and the step.

Batches, noise and learning rate follow from (seed, step), so nothing else is needed to go on exactly.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from cgmcr2._files import replacing


def save_checkpoint(
    path: Path, modules: nn.Module, optimizer: torch.optim.Adam, figures: dict[str, Tensor], facts: dict[str, Any]
) -> None:
    """``facts`` (the step, the settings: plain data) go into the file's header."""
    tensors = {f"modules.{name}": tensor for name, tensor in modules.state_dict().items()}
    tensors |= {f"figures.{name}": tensor for name, tensor in figures.items()}
    for name, parameter in modules.named_parameters():
        for key, value in optimizer.state.get(parameter, {}).items():
            tensors[f"optimizer.{key}.{name}"] = value
    with replacing(path) as temporary:
        save_file(
            {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()},
            temporary,
            metadata={"facts": json.dumps(facts)},
        )


def load_checkpoint(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors and the facts of a checkpoint."""
    try:
        with safe_open(path, framework="pt") as file:
            return {name: file.get_tensor(name) for name in file.keys()}, json.loads(file.metadata()["facts"])  # noqa: SIM118
    except (SafetensorError, KeyError, TypeError) as error:
        raise ValueError(
            f"{path} is not a readable checkpoint ({error}); delete it to start this training anew."
        ) from error


def restore(tensors: dict[str, Tensor], modules: nn.Module, optimizer: torch.optim.Adam) -> dict[str, Tensor]:
    """Put a checkpoint's tensors back where they came from; returns the running figures."""
    parts: dict[str, dict[str, Tensor]] = {"modules": {}, "figures": {}, "optimizer": {}}
    for name, tensor in tensors.items():
        part, _, rest = name.partition(".")
        parts[part][rest] = tensor
    modules.load_state_dict(parts["modules"])
    parameters = dict(modules.named_parameters())
    for name, tensor in parts["optimizer"].items():
        key, _, parameter = name.partition(".")
        device = parameters[parameter].device
        optimizer.state[parameters[parameter]][key] = tensor.to(device)
    return parts["figures"]
