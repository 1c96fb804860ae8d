"""Exact search for the images that are most similar to a query."""

from __future__ import annotations

import functools
import io

import numpy as np
import torch
from numpy.typing import NDArray

from cgmcr2.encoders import load_encoder
from cgmcr2.encoders.base import Encoder
from cgmcr2.features.sources import FeatureSource, read_rows, space_widths
from cgmcr2.images.decode import decode_data, error_reason
from cgmcr2.model import unit_spaces

BLOCK_ROWS = 8_192  # rows compared at once: 40 MB for 1280 features


def most_similar(
    features: FeatureSource, query: NDArray[np.float32], count: int, *, block_rows: int = BLOCK_ROWS
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Rows of ``features (n, D)`` of largest cosine similarity to ``query (D,)``, and the similarities.

    With several feature spaces, the similarity is the mean over the spaces.

    >>> rows, similarities = most_similar(np.eye(3, dtype=np.float32), np.float32([0, 3, 4]), 2)
    >>> rows.tolist(), similarities.round(2).tolist()
    ([2, 1], [0.8..., 0.6...])
    """
    n, spaces = features.shape[0], space_widths(features)
    direction = unit_spaces(torch.from_numpy(query[None]), spaces)[0]
    rows, similarities = np.empty(0, np.int64), np.empty(0, np.float32)
    for start in range(0, n, block_rows):
        X = torch.from_numpy(read_rows(features, slice(start, min(n, start + block_rows))))
        block = (unit_spaces(X, spaces) @ direction).numpy()
        rows = np.concatenate([rows, np.arange(start, start + len(block))])
        similarities = np.concatenate([similarities, block.astype(np.float32)])
        order = np.argsort(-similarities, kind="stable")[:count]
        rows, similarities = rows[order], similarities[order]
    return rows, similarities


def embed_file(data: bytes, encoder_name: str) -> NDArray[np.float32]:
    """Features (D,) of an image file; raise ``ValueError`` if it cannot be read."""
    encoder = _encoder(encoder_name)
    try:
        image = decode_data(io.BytesIO(data), encoder.image_size)
    except Exception as error:  # damaged images raise nearly any type
        raise ValueError(f"The file cannot be read as an image: {error_reason(error)}.") from None
    return np.asarray(encoder.encode(encoder.preprocess(image)[None])[0])


@functools.lru_cache(maxsize=1)
def _encoder(name: str) -> Encoder:
    return load_encoder(name)
