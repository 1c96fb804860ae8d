"""What every encoder is: an image in, a feature vector out, and a fingerprint that says which encoder it was."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image

_SAMPLES = 4096


@runtime_checkable
class Encoder(Protocol):
    """A frozen image encoder.

    Attributes
    ----------
    name:
        What :func:`cgmcr2.encoders.load_encoder` takes to load this encoder again, its options included.
    dim:
        Length D of a feature vector.
    fingerprint:
        Hash of the weights and of the preprocessing, the same on every machine and wherever the weights are stored. It
        does not change with device or precision, whose effect on the features is far below that of another encoder.
    image_size:
        Shortest side in pixels that the encoder can make use of: larger JPEG files may be decoded at a fraction.
    """

    @property
    def name(self) -> str: ...

    @property
    def dim(self) -> int: ...

    @property
    def fingerprint(self) -> str: ...

    @property
    def image_size(self) -> int: ...

    def preprocess(self, image: Image.Image) -> npt.NDArray[Any]:
        """RGB image -> the array that :meth:`encode` takes for it, always of one shape; safe to call in threads."""
        ...

    def encode(self, batch: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
        """Stacked outputs of :meth:`preprocess` (n, ...) -> features (n, D)."""
        ...


def fingerprint_of(**parts: object) -> str:
    """Short hash of what makes an encoder what it is; ``parts`` must be JSON values.

    >>> fingerprint_of(network="a", size=224) == fingerprint_of(size=224, network="a")
    True
    >>> fingerprint_of(network="a", size=224) == fingerprint_of(network="a", size=160)
    False
    """
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:32]


def weights_digest(weights: Mapping[str, torch.Tensor]) -> str:
    """Hash of all names, all shapes and up to 4096 evenly spaced values of each tensor.

    Milliseconds for gigabytes. Training changes a tensor nearly everywhere, so that a sample tells two weights apart.

    >>> weights_digest({"w": torch.zeros(3)}) == weights_digest({"w": torch.ones(3)})
    False
    """
    digest = hashlib.sha256()
    for name in sorted(weights):
        tensor = weights[name].detach().reshape(-1)
        step = max(1, -(-tensor.numel() // _SAMPLES))
        values = tensor[::step].to("cpu", torch.float32).numpy().astype("<f4")
        digest.update(f"{name} {tuple(weights[name].shape)}\n".encode())
        digest.update(values.tobytes())
    return digest.hexdigest()


def check_batch(batch: npt.NDArray[Any], shape: tuple[int, ...], encoder: str) -> None:
    """Raise unless ``batch`` is (n, *shape), the stacked outputs of the encoder's ``preprocess``.

    >>> check_batch(np.zeros((2, 8, 8, 3)), (8, 8, 3), "bundled")
    >>> check_batch(np.zeros((2, 8, 8)), (8, 8, 3), "bundled")
    Traceback (most recent call last):
        ...
    ValueError: The encoder bundled takes stacked outputs of its preprocess(), shape (n, 8, 8, 3), but got (2, 8, 8).
    """
    if batch.ndim != len(shape) + 1 or batch.shape[1:] != shape:
        needed = ", ".join(map(str, ("n", *shape)))
        raise ValueError(
            f"The encoder {encoder} takes stacked outputs of its preprocess(), shape ({needed}), but got {batch.shape}."
        )


def pick_device(device: str | None) -> torch.device:
    """The device asked for, or the first GPU, or the CPU.

    >>> pick_device("cpu")
    device(type='cpu')
    """
    if device is None:
        device = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        return torch.empty(0, device=device).device
    except (RuntimeError, AssertionError) as error:  # torch raises either for a device that this machine lacks
        raise ValueError(
            f"The device {device!r} cannot be used on this machine: give 'cpu' or leave it out."
        ) from error
