from __future__ import annotations

import numpy as np
import pytest
import torch

from cgmcr2.encoders.common import encode_in_chunks, fingerprint_of, pick_device, weights_digest


def test_weights_digest_sees_names_never_and_values_always() -> None:
    tensors = [torch.randn(10, 20), torch.randn(100_000), torch.randn(3)]
    same = weights_digest(tensors)
    assert weights_digest(reversed(tensors)) == same
    assert weights_digest([tensor.half().float() for tensor in tensors]) != same
    assert weights_digest([tensors[0].T, *tensors[1:]]) != same
    assert weights_digest([tensors[0], tensors[1] * 1.001, tensors[2]]) != same


def test_weights_digest_is_the_same_on_every_machine() -> None:
    tensor = torch.arange(10_000, dtype=torch.float32).reshape(100, 100)
    assert weights_digest([tensor])[:16] == "276747ba81865d7d"
    assert fingerprint_of(network="x", size=1) == "24724a7280603095497b9c476447475c"


def test_chunks_have_one_shape_and_the_order_is_kept() -> None:
    seen = []

    def run(batch: np.ndarray) -> torch.Tensor:
        seen.append(batch.shape)
        return torch.from_numpy(batch[:, :1]).float()

    batch = np.arange(14, dtype=np.uint8).reshape(7, 2)
    features = encode_in_chunks(run, batch, (2,), 1, "x", chunk=3)
    assert seen == [(3, 2)] * 3
    assert features.dtype == np.float32
    np.testing.assert_array_equal(features[:, 0], batch[:, 0])
    assert encode_in_chunks(run, batch[:0], (2,), 1, "x", chunk=3).shape == (0, 1)
    seen.clear()
    encode_in_chunks(run, batch, (2,), 1, "x", chunk=None)
    assert seen == [(7, 2)]


def test_a_device_that_is_not_there_is_named() -> None:
    if not torch.cuda.is_available():
        with pytest.raises(ValueError, match="'cuda' cannot be used on this machine"):
            pick_device("cuda")
    with pytest.raises(ValueError, match="'abacus' cannot be used"):
        pick_device("abacus")
