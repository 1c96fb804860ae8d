"""ResNet-18 trained with MoCo-v2 (or any like method), from checkpoints as people have them."""

from __future__ import annotations

import argparse
import contextlib
import math
import pickle
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image

from cgmcr2.encoders.common import default_batch_size, encode_in_chunks, fingerprint_of, pick_device, weights_digest
from cgmcr2.encoders.hub import first_line
from cgmcr2.encoders.pixels import Preprocessing
from cgmcr2.encoders.resnet import DIM, ResNet18
from cgmcr2.encoders.views import SMALLEST_AREA, WIDEST, image_rng, random_view

_CIFAR = Preprocessing(resize=32, crop=32, mean=(0.4914, 0.4822, 0.4465), std=(0.2023, 0.1994, 0.2010))
_IMAGENET = Preprocessing()
_CHUNK = 8

# copies of the encoder that a checkpoint also holds: MoCo's momentum encoder and its relatives
_COPIES = re.compile(r"encoder_k\.|momentum|target|teacher|ema")
_WRAPPERS = ("state_dict", "model_state_dict", "model", "net", "encoder", "backbone")


class MocoEncoder:
    """ResNet-18 with the weights of a MoCo-v2 checkpoint, 512-d pooled features.

    A 3x3 first convolution means CIFAR (32 px, CIFAR's mean and std), a 7x7 one ImageNet (224 px, ImageNet's).

    ``views`` > 0 averages the features of that many augmented views instead of encoding the image as it is (the paper
    averages two). The views follow from the pixels and ``seed``, so that encoding twice gives the same features.
    """

    dim = DIM

    def __init__(self, checkpoint: str | Path, *, views: int = 0, seed: int = 0, device: str | None = None) -> None:
        if views < 0:
            raise ValueError(f"The number of augmented views to average is 0 (none) or more, got views={views}.")
        path = Path(checkpoint)
        weights = read_backbone(path)
        stem = int(weights["conv1.weight"].shape[-1])
        self._preprocessing = _CIFAR if stem == 3 else _IMAGENET
        self._views, self._seed = views, seed
        self._device = pick_device(device)
        self.batch_size = default_batch_size(self._device)
        self._network = _network(weights, stem, path).to(self._device)
        size = self._preprocessing.crop
        # the smallest crop of a view is enlarged to the size of the input
        self.image_size = math.ceil(size / math.sqrt(SMALLEST_AREA / WIDEST)) if views else size
        options = [f"views={views}"] * (views > 0) + [f"seed={seed}"] * (views > 0 and seed != 0)
        self.name = f"moco:{path.resolve()}" + ("?" + "&".join(options) if options else "")
        floats = [tensor for tensor in self._network.state_dict().values() if tensor.is_floating_point()]
        self.fingerprint = fingerprint_of(
            network="resnet18",
            weights=weights_digest(floats),
            preprocessing=self._preprocessing.as_dict(),
            views=views,
            seed=seed if views else 0,
        )

    def preprocess(self, image: Image.Image) -> npt.NDArray[np.uint8]:
        """RGB image -> uint8 (views, h, w, 3): the image itself, or its augmented views."""
        if not self._views:
            return self._preprocessing(image)[None]
        rng = image_rng(image, self._seed)
        size = self._preprocessing.crop
        return np.stack([np.asarray(random_view(image, size, rng)) for _ in range(self._views)])

    def encode(self, batch: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
        """uint8 (n, views, h, w, 3) -> float32 (n, 512)."""
        shape = (max(1, self._views), *self._preprocessing.shape)
        chunk = _CHUNK if self._device.type == "cpu" else None
        return encode_in_chunks(self._run, batch, shape, self.dim, self.name, chunk)

    def _run(self, batch: npt.NDArray[Any]) -> torch.Tensor:
        images = batch.reshape(-1, *batch.shape[2:])
        pixels = self._preprocessing.normalize(images, self._device).permute(0, 3, 1, 2)
        features: torch.Tensor = self._network(pixels)
        return features.view(len(batch), -1, DIM).mean(1)


def read_backbone(path: Path) -> dict[str, torch.Tensor]:
    """Weights of the ResNet in a checkpoint, under torchvision's names, whatever they are wrapped in.

    Known are ``state_dict`` and the like around them, prefixes (``module.encoder_q.``, ``encoder.``, ``backbone.`` or
    any other), numbered layers (``backbone.4.0.conv1`` for ``layer1.0.conv1``) and ``shortcut`` for ``downsample``.
    """
    state = _tensors(_load(path), path)
    # what stands before a first block, whose stage is called layer1 or has a number
    starts = [match for name in state if (match := re.fullmatch(r"((?:.*\.)?)(?:layer1|\d+)\.0\.conv1\.weight", name))]
    prefixes = sorted({start[1] for start in starts})
    if len(prefixes) > 1:
        prefixes = [prefix for prefix in prefixes if not _COPIES.search(prefix)] or prefixes
    if len(prefixes) != 1:
        found = f"several networks ({', '.join(prefixes)})" if prefixes else f"none, but {_some(state)}"
        raise ValueError(
            f"The checkpoint {path} should hold one ResNet-18 (conv1.weight, layer1.0.conv1.weight ... behind any "
            f"prefix), and holds {found}."
        )
    prefix = prefixes[0]
    backbone = {name.removeprefix(prefix): tensor for name, tensor in state.items() if name.startswith(prefix)}
    weights = _torchvision_names(backbone)
    if "conv1.weight" not in weights:
        raise ValueError(f"The checkpoint {path} lacks {prefix}conv1.weight, and holds {_some(backbone)}.")
    return weights


def _torchvision_names(weights: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    stages = sorted({int(name.split(".")[0]) for name in weights if re.match(r"\d+\.0\.conv1\.", name)})
    names = {str(number): f"layer{stage}" for stage, number in enumerate(stages, 1)}
    if stages:  # nn.Sequential(*list(resnet.children())): 0 is the first convolution, 1 its BatchNorm
        names |= {"0": "conv1", "1": "bn1"}
    renamed = {}
    for name, tensor in weights.items():
        first, _, rest = name.partition(".")
        renamed[f"{names.get(first, first)}.{rest}".replace(".shortcut.", ".downsample.")] = tensor
    return renamed


def _network(weights: dict[str, torch.Tensor], stem: int, path: Path) -> ResNet18:
    if "layer1.0.conv3.weight" in weights:
        raise ValueError(f"The checkpoint {path} holds a ResNet-50 or deeper: the encoder is a ResNet-18.")
    network = ResNet18(stem)
    needed = network.state_dict()
    missing = [name for name in needed if name not in weights and not name.endswith("num_batches_tracked")]
    wrong = [name for name in needed if name in weights and weights[name].shape != needed[name].shape]
    extra = [name for name in weights if name.startswith("layer") and name not in needed]
    for names, what in ((missing, "lacks"), (wrong, "has of another shape"), (extra, "has beyond a ResNet-18")):
        if names:
            raise ValueError(f"The checkpoint {path} {what} {_some(names)}: it should hold a ResNet-18.")
    network.load_state_dict({name: weights.get(name, needed[name]) for name in needed})
    return network.eval().requires_grad_(False)


def _load(path: Path) -> Any:
    if not path.is_file():
        raise FileNotFoundError(f"There is no checkpoint {path}: give moco: and the path of a file.")
    if path.suffix == ".safetensors":
        from safetensors.torch import load_file

        return load_file(path)
    try:
        # checkpoints often hold the arguments of the training program, which are harmless to read
        allow = getattr(torch.serialization, "safe_globals", None)  # since torch 2.5
        with allow([argparse.Namespace]) if allow else contextlib.nullcontext():
            return torch.load(path, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, EOFError, ValueError, KeyError) as error:
        raise ValueError(
            f"The checkpoint {path} cannot be read as plain weights ({first_line(error)[:120]}): save only its tensors "
            "with torch.save(model.state_dict(), file)."
        ) from error


def _tensors(content: Any, path: Path) -> dict[str, torch.Tensor]:
    """The mapping from names to tensors inside what the file holds."""
    for _ in range(3):
        if not isinstance(content, Mapping):
            break
        wrapped = [content[key] for key in _WRAPPERS if isinstance(content.get(key), Mapping)]
        if wrapped:
            content = wrapped[0]
            continue
        tensors = {str(name): value for name, value in content.items() if isinstance(value, torch.Tensor)}
        if tensors:
            return tensors
        break
    found = _some([str(key) for key in content]) if isinstance(content, Mapping) else f"a {type(content).__name__}"
    raise ValueError(
        f"The checkpoint {path} should hold named tensors, by themselves or under {' or '.join(_WRAPPERS)}, and holds "
        f"{found}."
    )


def _some(names: Any) -> str:
    """The first names of many.

    >>> _some(["a", "b", "c", "d", "e"])
    'a, b, c and 2 more'
    """
    listed = list(names)
    more = f" and {len(listed) - 3} more" if len(listed) > 3 else ""
    return ", ".join(listed[:3]) + more if listed else "nothing"
