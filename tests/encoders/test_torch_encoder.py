"""Encoding in chunks of equal shape."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from cgmcr2.encoders.preprocessing import Preprocessing
from cgmcr2.encoders.torch_encoder import TorchEncoder, encode_in_chunks


def test_chunks_have_equal_shapes_and_keep_the_order() -> None:
    shapes = []

    def forward(batch: np.ndarray) -> torch.Tensor:
        shapes.append(batch.shape)
        return torch.from_numpy(batch[:, :1]).float()

    batch = np.arange(14, dtype=np.uint8).reshape(7, 2)
    features = encode_in_chunks(forward, batch, (2,), 1, "x", chunk=3)
    assert shapes == [(3, 2)] * 3
    assert features.dtype == np.float32
    np.testing.assert_array_equal(features[:, 0], batch[:, 0])
    assert encode_in_chunks(forward, batch[:0], (2,), 1, "x", chunk=3).shape == (0, 1)
    shapes.clear()
    encode_in_chunks(forward, batch, (2,), 1, "x", chunk=None)
    assert shapes == [(7, 2)]


def test_unavailable_device_is_refused() -> None:
    with pytest.raises(ValueError, match="'abacus' cannot be used"):
        TorchEncoder(Preprocessing(), "abacus")
