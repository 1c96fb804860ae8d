"""Saving and loading a network as ``model.safetensors`` and ``config.json``. Loading executes no code."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import msgspec
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file

from cgmcr2._files import read_json, replacing, write_json

from .network import Network, NetworkConfig

FORMAT = 2
ADVICE = "restore the file, or train the model again"


def save_network(network: Network, folder: Path, extra: dict[str, Any] | None = None) -> None:
    """Write ``network`` to ``folder``; the entries of ``extra`` are added to ``config.json``."""
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in network.state_dict().items()}
    with replacing(folder / "model.safetensors") as temporary:
        save_file(tensors, temporary)
    config = {"format": FORMAT, "network": dataclasses.asdict(network.config), **(extra or {})}
    write_json(folder / "config.json", config)  # written last: its presence marks a complete model


def load_network(folder: Path) -> tuple[Network, dict[str, Any]]:
    """Load a network written by ``save_network``, in evaluation mode, and the contents of its ``config.json``."""
    folder = Path(folder)
    path = folder / "config.json"
    if not path.is_file():
        raise FileNotFoundError(
            f"{folder} is not a saved model: it has no config.json; pass the folder that save() wrote."
        )
    config = _read_config(path)
    try:
        architecture = msgspec.convert(config.get("network"), NetworkConfig)
    except (msgspec.ValidationError, ValueError) as error:
        raise ValueError(f"{path} is damaged ({error}); {ADVICE}.") from None
    with torch.device("meta"):  # skip random initialisation: the weights come from the file
        network = Network(architecture)
    weights = folder / "model.safetensors"
    try:
        _check_tensors(weights, network)
        network.load_state_dict(load_file(weights), strict=True, assign=True)
    except (SafetensorError, RuntimeError, OSError) as error:
        raise ValueError(f"{weights} cannot be read ({str(error).splitlines()[0]}); {ADVICE}.") from None
    return network.eval(), config


def has_current_format(folder: Path) -> bool:
    """Whether the ``config.json`` of a saved model is readable by this version."""
    try:
        _read_config(folder / "config.json")
    except (OSError, ValueError):
        return False
    return True


def _read_config(path: Path) -> dict[str, Any]:
    config: dict[str, Any] = read_json(path, dict[str, Any], format=FORMAT, advice=ADVICE)
    return config


def _check_tensors(path: Path, network: Network) -> None:
    """Compare names, shapes and types with the network's before any tensor is read."""
    expected = {name: (list(tensor.shape), _TYPES[tensor.dtype]) for name, tensor in network.state_dict().items()}
    with safe_open(path, framework="pt") as file:
        slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118 - not a dict
        found = {name: (list(part.get_shape()), part.get_dtype()) for name, part in slices.items()}
    for name in sorted(expected.keys() | found.keys()):
        if expected.get(name) != found.get(name):
            raise RuntimeError(f"{name} is {found.get(name)}, but the configuration needs {expected.get(name)}")


_TYPES = {torch.float32: "F32", torch.int64: "I64"}
