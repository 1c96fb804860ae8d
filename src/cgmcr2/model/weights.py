"""Saving and loading a network as ``model.safetensors`` and ``config.json``. Loading executes no code."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from cgmcr2._files import replacing, write_json

from .network import Network, NetworkConfig

FORMAT = 1


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
    config = json.loads(path.read_text(encoding="utf-8"))
    if config.get("format") != FORMAT:
        raise ValueError(
            f"{path} has format {config.get('format')!r}, but this version reads format {FORMAT}; "
            "load it with the version that wrote it, or train a new model."
        )
    with torch.device("meta"):  # skip random initialisation: the weights come from the file
        network = Network(NetworkConfig(**config["network"]))
    network.load_state_dict(load_file(folder / "model.safetensors"), strict=True, assign=True)
    return network.eval(), config
