"""What the encoders that run in torch share: fingerprints, chunks of one shape, the choice of a device."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

_SAMPLES = 4096


def fingerprint_of(**parts: object) -> str:
    """Short hash of what makes an encoder what it is; ``parts`` must be JSON values.

    >>> fingerprint_of(network="a", size=224) == fingerprint_of(size=224, network="a")
    True
    >>> fingerprint_of(network="a", size=224) == fingerprint_of(network="a", size=160)
    False
    """
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:32]


def weights_digest(weights: Iterable[torch.Tensor]) -> str:
    """Hash of the shapes and of up to 4096 evenly spaced values of each tensor, in any order and whatever their names.

    Milliseconds for gigabytes. Training changes a tensor nearly everywhere, so that a sample tells two weights apart.

    >>> zeros, ones = torch.zeros(3), torch.ones(2, 2)
    >>> weights_digest([zeros, ones]) == weights_digest([ones, zeros])
    True
    >>> weights_digest([zeros, ones]) == weights_digest([zeros, -ones])
    False
    """
    digests = []
    for tensor in weights:
        step = max(1, -(-tensor.numel() // _SAMPLES))
        values = tensor.detach().reshape(-1)[::step].to("cpu", torch.float32).numpy().astype("<f4")
        digests.append(hashlib.sha256(f"{tuple(tensor.shape)} ".encode() + values.tobytes()).hexdigest())
    return hashlib.sha256("".join(sorted(digests)).encode()).hexdigest()


def encode_in_chunks(
    run: Callable[[npt.NDArray[Any]], torch.Tensor],
    batch: npt.NDArray[Any],
    shape: tuple[int, ...],
    dim: int,
    name: str,
    chunk: int | None,
) -> npt.NDArray[np.float32]:
    """``run`` on ``chunk`` images of ``batch`` (n, *shape) at a time -> features (n, dim); all at once if it is None.

    Every chunk has the same shape, the last one filled up with zeros, so that the features of an image are the same to
    the last bit whatever batch it comes in: a resumed run repeats an uninterrupted one.

    >>> means = lambda images: torch.from_numpy(images).float().mean(1, keepdim=True)
    >>> encode_in_chunks(means, np.array([[1, 2], [3, 4], [5, 6]]), (2,), 1, "mean", chunk=2).ravel().tolist()
    [1.5, 3.5, 5.5]
    >>> encode_in_chunks(means, np.zeros((2, 8)), (2,), 1, "mean", chunk=2)
    Traceback (most recent call last):
        ...
    ValueError: The encoder mean takes stacked outputs of its preprocess(), shape (n, 2), but got (2, 8).
    """
    if batch.ndim != len(shape) + 1 or batch.shape[1:] != shape:
        needed = ", ".join(map(str, ("n", *shape)))
        raise ValueError(
            f"The encoder {name} takes stacked outputs of its preprocess(), shape ({needed}), but got {batch.shape}."
        )
    features = np.empty((len(batch), dim), dtype=np.float32)
    chunk = chunk or max(1, len(batch))
    with torch.inference_mode():
        for start in range(0, len(batch), chunk):
            part = batch[start : start + chunk]
            count = len(part)
            if count < chunk:
                part = np.concatenate([part, np.zeros((chunk - count, *shape), part.dtype)])
            features[start : start + count] = run(part)[:count].float().cpu().numpy()
    return features


def default_batch_size(device: torch.device) -> int:
    """Images to hand to ``encode`` at a time: a GPU wants many, a CPU works in small chunks anyway.

    >>> default_batch_size(torch.device("cpu"))
    32
    """
    return 32 if device.type == "cpu" else 256


def pick_device(device: str | None) -> torch.device:
    """The device asked for; where that is None or ``"auto"``, the first GPU or else the CPU.

    >>> pick_device("cpu")
    device(type='cpu')
    """
    if device in (None, "auto"):
        device = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        return torch.empty(0, device=device).device
    except (RuntimeError, AssertionError) as error:  # torch raises either for a device that this machine lacks
        raise ValueError(
            f"The device {device!r} cannot be used on this machine: give 'cpu' or leave it out."
        ) from error
