"""ResNet-18 from a checkpoint of MoCo-v2 or a similar self-supervised method."""

from __future__ import annotations

import argparse
import contextlib
import pickle
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from cgmcr2.encoders.fingerprint import fingerprint_of, weights_digest
from cgmcr2.encoders.hub import first_line
from cgmcr2.encoders.preprocessing import CIFAR_MEAN, CIFAR_STD, Preprocessing
from cgmcr2.encoders.resnet import DIM, ResNet18
from cgmcr2.encoders.torch_encoder import TorchEncoder

_CIFAR = Preprocessing(resize=32, crop=32, mean=CIFAR_MEAN, std=CIFAR_STD)
_IMAGENET = Preprocessing()

# prefixes of momentum (EMA) copies of the encoder, such as MoCo's encoder_k
_EMA_PREFIXES = re.compile(r"encoder_k\.|momentum|target|teacher|ema")
_STATE_KEYS = ("state_dict", "model_state_dict", "model", "net", "encoder", "backbone")


class MocoEncoder(TorchEncoder):
    """ResNet-18 with the weights of a MoCo-v2 checkpoint, 512 pooled features.

    Checkpoints with a 3x3 first convolution use the preprocessing of CIFAR (32 pixels), those with 7x7 that of ImageNet
    (224 pixels).

    Parameters
    ----------
    checkpoint : str or Path
        File of a PyTorch or safetensors checkpoint.
    device : str
        Device, or ``"auto"``.
    """

    dim = DIM

    def __init__(self, checkpoint: str | Path, *, device: str = "auto") -> None:
        path = Path(checkpoint)
        weights = read_backbone(path)
        stem = int(weights["conv1.weight"].shape[-1])
        super().__init__(_CIFAR if stem == 3 else _IMAGENET, device)
        self._network = _build_network(weights, stem, path).to(self._device)
        self.name = f"moco:{path.resolve()}"
        floats = [tensor for tensor in self._network.state_dict().values() if tensor.is_floating_point()]
        self.fingerprint = fingerprint_of(
            network="resnet18",
            weights=weights_digest(floats),
            preprocessing=self._preprocessing.as_dict(),
            views=0,  # part of the fingerprint of existing stores
            seed=0,
        )

    def _features(self, pixels: torch.Tensor) -> torch.Tensor:
        features: torch.Tensor = self._network(pixels.permute(0, 3, 1, 2))
        return features


def read_backbone(path: Path) -> dict[str, torch.Tensor]:
    """Read the weights of the ResNet in a checkpoint, and rename them as in torchvision.

    The state may be nested (``state_dict``, ``model``, ...) and have any prefix (``module.encoder_q.``, ``backbone.``,
    ...). Layers may be numbered (``4.0.conv1`` for ``layer1.0.conv1``), and ``downsample`` may be named ``shortcut``.
    """
    state = _tensors(_load(path), path)
    # first block of layer1, or of any numbered stage; the text before it is the prefix
    matches = [match for name in state if (match := re.fullmatch(r"((?:.*\.)?)(?:layer1|\d+)\.0\.conv1\.weight", name))]
    prefixes = sorted({match[1] for match in matches})
    if len(prefixes) > 1:
        prefixes = [prefix for prefix in prefixes if not _EMA_PREFIXES.search(prefix)] or prefixes
    if len(prefixes) != 1:
        content = f"several networks ({', '.join(prefixes)})" if prefixes else _first_names(state)
        raise ValueError(
            f"The checkpoint {path} must contain one ResNet-18 (conv1.weight, layer1.0.conv1.weight, ... with any "
            f"prefix), but contains {content}."
        )
    prefix = prefixes[0]
    backbone = {name.removeprefix(prefix): tensor for name, tensor in state.items() if name.startswith(prefix)}
    weights = _torchvision_names(backbone)
    if "conv1.weight" not in weights:
        raise ValueError(f"The checkpoint {path} lacks {prefix}conv1.weight; it contains {_first_names(backbone)}.")
    return weights


def _torchvision_names(weights: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    stages = sorted({int(name.split(".")[0]) for name in weights if re.match(r"\d+\.0\.conv1\.", name)})
    names = {str(number): f"layer{stage}" for stage, number in enumerate(stages, 1)}
    if stages:  # nn.Sequential(*resnet.children()): 0 is the first convolution, 1 its BatchNorm
        names |= {"0": "conv1", "1": "bn1"}
    renamed = {}
    for name, tensor in weights.items():
        first, _, rest = name.partition(".")
        renamed[f"{names.get(first, first)}.{rest}".replace(".shortcut.", ".downsample.")] = tensor
    return renamed


def _build_network(weights: dict[str, torch.Tensor], stem: int, path: Path) -> ResNet18:
    if "layer1.0.conv3.weight" in weights:
        raise ValueError(f"The checkpoint {path} contains a ResNet-50 or deeper, but must contain a ResNet-18.")
    network = ResNet18(stem)
    expected = network.state_dict()
    missing = [name for name in expected if name not in weights and not name.endswith("num_batches_tracked")]
    wrong = [name for name in expected if name in weights and weights[name].shape != expected[name].shape]
    extra = [name for name in weights if name.startswith("layer") and name not in expected]
    for names, problem in ((missing, "lacks"), (wrong, "has wrong shapes for"), (extra, "has additional tensors")):
        if names:
            raise ValueError(f"The checkpoint {path} {problem} {_first_names(names)}: it must contain a ResNet-18.")
    network.load_state_dict({name: weights.get(name, expected[name]) for name in expected})
    return network.eval().requires_grad_(False)


def _load(path: Path) -> Any:
    if not path.is_file():
        raise FileNotFoundError(f"There is no checkpoint file {path}.")
    if path.suffix == ".safetensors":
        from safetensors.torch import load_file

        return load_file(path)
    try:
        # checkpoints often contain the arguments of the training script, which are safe to load
        allow = getattr(torch.serialization, "safe_globals", None)  # since torch 2.5
        with allow([argparse.Namespace]) if allow else contextlib.nullcontext():
            return torch.load(path, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, EOFError, ValueError, KeyError) as error:
        raise ValueError(
            f"The checkpoint {path} cannot be loaded ({first_line(error)[:120]}): it is damaged, or holds more than "
            "tensors; then save only its weights with torch.save(model.state_dict(), file)."
        ) from error


def _tensors(content: Any, path: Path) -> dict[str, torch.Tensor]:
    """Return the tensors in a checkpoint by name; they may be nested up to two levels deep."""
    for _ in range(3):
        if not isinstance(content, Mapping):
            break
        nested = [content[key] for key in _STATE_KEYS if isinstance(content.get(key), Mapping)]
        if nested:
            content = nested[0]
            continue
        tensors = {str(name): value for name, value in content.items() if isinstance(value, torch.Tensor)}
        if tensors:
            return tensors
        break
    names = _first_names([str(key) for key in content]) if isinstance(content, Mapping) else type(content).__name__
    raise ValueError(
        f"The checkpoint {path} must contain named tensors, directly or under {' or '.join(_STATE_KEYS)}, "
        f"but contains {names}."
    )


def _first_names(names: Any) -> str:
    """Return the first three names and the number of the others.

    >>> _first_names(["a", "b", "c", "d", "e"])
    'a, b, c and 2 more'
    """
    names = list(names)
    others = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(names[:3]) + others if names else "nothing"
