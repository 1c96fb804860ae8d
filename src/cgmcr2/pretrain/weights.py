"""Saving and loading estimators of images as ``model.safetensors`` and ``config.json``. Loading executes no code."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any, cast

import msgspec
import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from cgmcr2._device import choose_device
from cgmcr2._files import read_json, replacing, write_json
from cgmcr2.encoders.hub import first_line
from cgmcr2.encoders.resnet import ResNet18

from .clusterer import ImageClusterer
from .estimators import CLUSTERERS
from .loop import memory_format
from .settings import Settings

FORMAT = 1
NETWORK = "network."  # start of the names of the network's tensors, next to those of the estimator
ADVICE = "restore the file, or train the model again"


@dataclasses.dataclass(frozen=True)
class _Config:
    """Content of ``config.json``."""

    format: int
    method: str  # name of the estimator
    parameters: dict[str, Any]  # of the estimator
    training: Settings  # of the last stage
    stem: int  # kernel of the first convolution of the ResNet
    width: int  # of the ResNet


def save_clusterer(model: ImageClusterer, folder: Path) -> None:
    """Write a fitted estimator to ``folder``."""
    backbone = cast(ResNet18, model.model_.backbone)
    config = _Config(
        FORMAT, model.name, model._parameters(), model._settings, backbone.conv1.kernel_size[0], backbone.dim // 8
    )
    network = {NETWORK + name: tensor for name, tensor in _predicting(model).items()}
    arrays = {name: torch.from_numpy(np.array(array)) for name, array in model._state().items()}
    tensors = {"labels_": torch.from_numpy(model.labels_), **arrays, **network}
    with replacing(folder / "model.safetensors") as temporary:
        save_file({name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}, temporary)
    write_json(folder / "config.json", dataclasses.asdict(config))  # written last: its presence marks a complete model


def load_clusterer(folder: Path, device: str = "auto") -> ImageClusterer:
    """Load the estimator that ``save_clusterer`` wrote to ``folder``."""
    path = folder / "config.json"
    if not path.is_file():
        raise FileNotFoundError(
            f"{folder} is not a saved model: it has no config.json; pass the folder that save() wrote."
        )
    config = read_json(path, _Config, format=FORMAT, advice=ADVICE)
    if config.method not in CLUSTERERS:
        raise ValueError(
            f"{folder} holds a model of {config.method!r}, which does not cluster images; "
            f"load() reads those of {', '.join(CLUSTERERS)}."
        )
    try:
        model = CLUSTERERS[config.method](**config.parameters, device=device)
        model._settings, model.seed_ = config.training, model.random_state
        network = model._untrained(ResNet18(config.stem, config.width))
    except (TypeError, ValueError, msgspec.ValidationError) as error:
        raise ValueError(f"{path} is damaged ({first_line(error)}); {ADVICE}.") from None
    model.model_ = network.to(choose_device(device), memory_format=memory_format(network)).eval()  # type: ignore[call-overload]
    _load_tensors(model, folder / "model.safetensors")
    return model


def _load_tensors(model: ImageClusterer, path: Path) -> None:
    try:
        tensors = load_file(path)
        weights = {name.removeprefix(NETWORK): tensors.pop(name) for name in list(tensors) if name.startswith(NETWORK)}
        expected = {name: tensor.shape for name, tensor in _predicting(model).items()}
        found = {name: tensor.shape for name, tensor in weights.items()}
        for name in sorted(expected.keys() | found.keys()):
            if expected.get(name) != found.get(name):
                raise ValueError(f"{name} is {_text(found.get(name))}, but {_text(expected.get(name))} is needed")
        model.model_.load_state_dict(weights, strict=False)
        model.labels_ = tensors.pop("labels_").numpy()
        model._restore({name: tensor.numpy() for name, tensor in tensors.items()})
    except KeyError as error:
        raise ValueError(f"{path} has no tensor {error}; {ADVICE}.") from None
    except (OSError, SafetensorError, ValueError) as error:
        raise ValueError(f"{path} cannot be read ({first_line(error)}); {ADVICE}.") from None


def _predicting(model: ImageClusterer) -> dict[str, Tensor]:
    """The tensors of the network without those that only training needs."""
    skipped = model.model_.training_only
    return {name: tensor for name, tensor in model.model_.state_dict().items() if name not in skipped}


def _text(shape: torch.Size | None) -> str:
    return "missing" if shape is None else f"of shape {tuple(shape)}"
