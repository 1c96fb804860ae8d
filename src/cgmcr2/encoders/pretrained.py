"""Encoders that ``cgmcr2 pretrain`` has trained: a folder with weights (safetensors) and configuration (JSON)."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import nn

from cgmcr2._files import read_json, replacing, write_json
from cgmcr2.encoders.fingerprint import fingerprint_of, weights_digest
from cgmcr2.encoders.hub import first_line
from cgmcr2.encoders.preprocessing import Preprocessing
from cgmcr2.encoders.registry import PRETRAINED_CONFIG
from cgmcr2.encoders.resnet import ResNet18
from cgmcr2.encoders.torch_encoder import TorchEncoder

FORMAT = 1
WEIGHTS = "encoder.safetensors"


@dataclasses.dataclass(frozen=True)
class PretrainedConfig:
    """Content of ``encoder.json``."""

    backbone: str  # ResNet18, or the class of another network, which must be given to load it
    dim: int  # number of features
    size: int  # side of the images in pixels
    stem: int  # kernel of the first convolution of the ResNet
    width: int  # of the ResNet
    mean: tuple[float, float, float]
    std: tuple[float, float, float]
    training: dict[str, Any]  # settings, seed and data of the training
    format: int = FORMAT


class PretrainedEncoder(TorchEncoder):
    """Encoder of a folder of ``cgmcr2 pretrain``.

    Parameters
    ----------
    folder : str or Path
        The folder.
    backbone : nn.Module, optional
        Network from images (n, 3, size, size) to features; needed if it was trained with another one than ResNet-18.
    device : str
        Device, or ``"auto"``.
    """

    def __init__(self, folder: str | Path, *, backbone: nn.Module | None = None, device: str = "auto") -> None:
        path = Path(folder)
        config = read_pretrained_config(path)
        if backbone is None and config.backbone != "ResNet18":
            raise ValueError(
                f"The encoder in {path} is a {config.backbone}; load it with PretrainedEncoder(folder, backbone=...)."
            )
        size = config.size
        super().__init__(Preprocessing(size, size, mean=config.mean, std=config.std), device)
        network = ResNet18(config.stem, config.width) if backbone is None else backbone
        try:
            network.load_state_dict(load_file(path / WEIGHTS))
        except (OSError, SafetensorError, RuntimeError) as error:
            raise ValueError(
                f"{path / WEIGHTS} does not hold the weights of the encoder ({first_line(error)}); train it again."
            ) from error
        self._network = network.to(self._device).eval().requires_grad_(False)
        self.dim = config.dim
        self.name = str(path.resolve())
        floats = [tensor for tensor in network.state_dict().values() if tensor.is_floating_point()]
        self.fingerprint = fingerprint_of(
            network=config.backbone, weights=weights_digest(floats), preprocessing=self._preprocessing.as_dict()
        )

    def _features(self, pixels: torch.Tensor) -> torch.Tensor:
        features: torch.Tensor = self._network(pixels.permute(0, 3, 1, 2))
        return features


def read_pretrained_config(folder: Path) -> PretrainedConfig:
    """Read ``encoder.json``."""
    return read_json(folder / PRETRAINED_CONFIG, PretrainedConfig, format=FORMAT, advice="train the encoder again")


def save_pretrained(folder: Path, backbone: nn.Module, config: PretrainedConfig) -> None:
    """Write the weights and the configuration of an encoder; the folder is complete when ``encoder.json`` exists."""
    tensors = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in backbone.state_dict().items()}
    for name, tensor in tensors.items():
        if not tensor.isfinite().all():
            raise ValueError(
                f"The encoder has values that are not finite ({name}); delete {folder}, and train again with a lower "
                "learning rate."
            )
    with replacing(folder / WEIGHTS) as temporary:
        save_file(tensors, temporary)
    write_json(folder / PRETRAINED_CONFIG, dataclasses.asdict(config))
