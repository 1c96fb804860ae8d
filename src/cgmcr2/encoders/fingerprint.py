"""Fingerprints of encoders: equal on every machine, different if weights or preprocessing differ."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable

import torch

_MAX_SAMPLES = 4096  # values per tensor


def fingerprint_of(**parts: object) -> str:
    """Return a short hash of ``parts``, which must be JSON values.

    >>> fingerprint_of(network="a", size=224) == fingerprint_of(size=224, network="a")
    True
    >>> fingerprint_of(network="a", size=224) == fingerprint_of(network="a", size=160)
    False
    """
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:32]


def weights_digest(weights: Iterable[torch.Tensor]) -> str:
    """Return a hash of the shapes and of up to 4096 evenly spaced values of each tensor, independent of their order.

    A sample suffices because training changes nearly all values of a tensor, and it takes milliseconds for gigabytes.

    >>> zeros, ones = torch.zeros(3), torch.ones(2, 2)
    >>> weights_digest([zeros, ones]) == weights_digest([ones, zeros])
    True
    >>> weights_digest([zeros, ones]) == weights_digest([zeros, -ones])
    False
    """
    digests = []
    for tensor in weights:
        step = max(1, -(-tensor.numel() // _MAX_SAMPLES))
        values = tensor.detach().reshape(-1)[::step].to("cpu", torch.float32).numpy().astype("<f4")
        digests.append(hashlib.sha256(f"{tuple(tensor.shape)} ".encode() + values.tobytes()).hexdigest())
    return hashlib.sha256("".join(sorted(digests)).encode()).hexdigest()
