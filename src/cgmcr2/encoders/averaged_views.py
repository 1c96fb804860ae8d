"""Any encoder, with the features of several augmented views averaged."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from cgmcr2.encoders.augmentation import MAX_ASPECT_RATIO, MIN_CROP_AREA, image_rng, random_view
from cgmcr2.encoders.base import Encoder, reads_text
from cgmcr2.encoders.fingerprint import fingerprint_of


class AveragedViews:
    """Encoder whose features are the mean of those of augmented views; the paper averages two views of MoCo-v2.

    The views depend only on the pixels and the seed, so repeating gives the same features.

    Parameters
    ----------
    encoder : Encoder
        Encoder of a single view.
    views : int
        Number of views, at least 1.
    seed : int
        Seed of the augmentation.

    Examples
    --------
    >>> from cgmcr2.encoders import load_encoder
    >>> encoder = load_encoder("bundled?size=32&views=2")
    >>> encoder.preprocess(Image.new("RGB", (40, 40))).shape, encoder.dim
    ((2, 32, 32, 3), 1280)
    """

    def __init__(self, encoder: Encoder, views: int, seed: int = 0) -> None:
        if isinstance(views, bool) or not isinstance(views, int) or views < 1:
            raise ValueError(f"The number of augmented views must be an integer of at least 1, got views={views}.")
        if not isinstance(seed, int) or seed < 0:
            raise ValueError(f"The seed of the augmented views must be an integer of at least 0, got seed={seed}.")
        self.encoder, self.views, self.seed = encoder, views, seed
        options = f"views={views}" + (f"&seed={seed}" if seed else "")
        self.name = f"{encoder.name}{'&' if '?' in encoder.name else '?'}{options}"
        self.dim = encoder.dim
        self.fingerprint = fingerprint_of(encoder=encoder.fingerprint, views=views, seed=seed)
        # large enough that the smallest crop is not enlarged
        self.image_size = math.ceil(encoder.image_size / math.sqrt(MIN_CROP_AREA / MAX_ASPECT_RATIO))
        self.batch_size = max(1, getattr(encoder, "batch_size", 32) // views)
        self.reads_text = reads_text(encoder)

    def preprocess(self, image: Image.Image) -> npt.NDArray[Any]:
        """Convert an RGB image to the inputs (views, ...) of its augmented views."""
        rng = image_rng(image, self.seed)
        size = self.encoder.image_size
        return np.stack([self.encoder.preprocess(random_view(image, size, rng)) for _ in range(self.views)])

    def encode(self, batch: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
        """Return the features (n, dim) of stacked outputs (n, views, ...) of :meth:`preprocess`."""
        if batch.ndim < 2 or batch.shape[1] != self.views:
            raise ValueError(
                f"The encoder {self.name} takes stacked outputs of its preprocess(), shape (n, {self.views}, ...), "
                f"but got {batch.shape}."
            )
        features = self.encoder.encode(batch.reshape(-1, *batch.shape[2:]))
        mean: npt.NDArray[np.float32] = features.reshape(len(batch), self.views, self.dim).mean(axis=1)
        return mean

    def encode_text(self, texts: list[str]) -> npt.NDArray[np.float32]:
        """Return the embeddings (m, dim) of m texts, if the encoder reads text."""
        embeddings: npt.NDArray[np.float32] = self.encoder.encode_text(texts)  # type: ignore[attr-defined]
        return embeddings
