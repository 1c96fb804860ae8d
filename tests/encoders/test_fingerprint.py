"""Fingerprints of weights and settings."""

from __future__ import annotations

import torch

from cgmcr2.encoders.fingerprint import fingerprint_of, weights_digest


def test_weights_digest_depends_on_values_and_not_on_order() -> None:
    tensors = [torch.randn(10, 20), torch.randn(100_000), torch.randn(3)]
    digest = weights_digest(tensors)
    assert weights_digest(reversed(tensors)) == digest
    assert weights_digest([tensor.half().float() for tensor in tensors]) != digest
    assert weights_digest([tensors[0].T, *tensors[1:]]) != digest
    assert weights_digest([tensors[0], tensors[1] * 1.001, tensors[2]]) != digest


def test_digest_is_equal_on_every_machine() -> None:
    tensor = torch.arange(10_000, dtype=torch.float32).reshape(100, 100)
    assert weights_digest([tensor])[:16] == "276747ba81865d7d"
    assert fingerprint_of(network="x", size=1) == "24724a7280603095497b9c476447475c"
