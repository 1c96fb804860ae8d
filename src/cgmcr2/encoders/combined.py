"""Several encoders as one, whose features are side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from cgmcr2.encoders.base import Encoder
from cgmcr2.encoders.registry import SEPARATOR


class CombinedEncoder:
    """Encoder whose features are those of several encoders, concatenated.

    Attributes
    ----------
    spaces : tuple of int
        Number of features of each encoder.

    Examples
    --------
    >>> from cgmcr2.encoders import load_encoder
    >>> encoder = load_encoder("bundled?size=32 + bundled?size=64")
    >>> encoder.spaces, encoder.dim
    ((1280, 1280), 2560)
    """

    def __init__(self, encoders: Sequence[Encoder]) -> None:
        self.encoders = list(encoders)
        self.name = SEPARATOR.join(encoder.name for encoder in encoders)
        self.spaces = tuple(encoder.dim for encoder in encoders)
        self.dim = sum(self.spaces)
        self.fingerprint = SEPARATOR.join(encoder.fingerprint for encoder in encoders)
        if len({encoder.fingerprint for encoder in encoders}) < len(encoders):
            raise ValueError(f"The encoders {self.name} are not all different; give each of them once.")
        self.image_size = max(encoder.image_size for encoder in encoders)
        self.batch_size = min(getattr(encoder, "batch_size", 32) for encoder in encoders)

    def preprocess(self, image: Image.Image) -> npt.NDArray[Any]:
        """Return a structured array of shape () with one field per encoder."""
        inputs = [encoder.preprocess(image) for encoder in self.encoders]
        fields = [(f"input_{i}", array.dtype, array.shape) for i, array in enumerate(inputs)]
        return np.array(tuple(inputs), dtype=fields)

    def encode(self, batch: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
        """Return the features (n, dim) of stacked outputs (n,) of :meth:`preprocess`."""
        inputs = [np.ascontiguousarray(batch[f"input_{i}"]) for i in range(len(self.encoders))]
        return np.concatenate([encoder.encode(x) for encoder, x in zip(self.encoders, inputs, strict=True)], axis=1)
