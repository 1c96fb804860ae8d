"""Similarity matrices |XXᵀ|, |ZZᵀ| and |ΠΠᵀ| as images, with rows sorted by cluster."""

from __future__ import annotations

import base64
import io

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from cgmcr2._arrays import unit_rows
from cgmcr2._random import sample_rows
from cgmcr2.clustering import Clustering
from cgmcr2.page.colors import PALETTE, rgb

SHADES = 64  # more cannot be told apart and make the file larger
STRIP = 8  # width in pixels of the strip of cluster colours along the edges
# From dark to light with increasing lightness, so that it also reads in greyscale and with colour blindness.
COLORMAP = (
    (16, 18, 38),
    (38, 48, 94),
    (42, 92, 128),
    (48, 140, 140),
    (108, 186, 126),
    (204, 224, 116),
    (252, 248, 206),
)


def sample_by_cluster(clustering: Clustering, max_rows: int, *, seed: int = 0) -> NDArray[np.int64]:
    """A uniform sample of at most ``max_rows`` row numbers, sorted by cluster, then by row.

    >>> sample_by_cluster(Clustering(list("abcd"), [1, 0, 1, 0]), 4)
    array([1, 3, 0, 2])
    """
    rows = sample_rows(len(clustering), max_rows, np.random.default_rng(seed))
    return rows[np.argsort(clustering.labels[rows], kind="stable")]


def absolute_cosines(X: NDArray[np.float32]) -> NDArray[np.float32]:
    """|cosine| between all pairs of rows, (m, D) -> (m, m).

    >>> absolute_cosines(np.array([[1, 0], [0, 2], [-3, 0]], dtype=np.float32))
    array([[1., 0., 1.],
           [0., 1., 0.],
           [1., 0., 1.]], dtype=float32)
    """
    unit = unit_rows(X)
    return np.asarray(np.abs(unit @ unit.T))


def heatmap(similarity: NDArray[np.float32], labels: NDArray[np.int64]) -> str:
    """PNG data URI of a similarity matrix (m, m) in [0, 1], with cluster colours along the top and left edges."""
    shades = np.clip(np.nan_to_num(similarity) * SHADES, 0, SHADES - 1).astype(np.uint8)
    strip = (SHADES + labels % len(PALETTE)).astype(np.uint8)
    transparent = SHADES + len(PALETTE)
    side = len(labels) + STRIP + 2
    canvas = np.full((side, side), transparent, dtype=np.uint8)
    canvas[STRIP + 2 :, STRIP + 2 :] = shades
    canvas[:STRIP, STRIP + 2 :] = strip
    canvas[STRIP + 2 :, :STRIP] = strip[:, None]
    image = Image.frombytes("P", (side, side), canvas.tobytes())
    colors = [*_interpolated_colormap(), *map(rgb, range(len(PALETTE))), (0, 0, 0)]
    image.putpalette(bytes(channel for color in colors for channel in color))
    file = io.BytesIO()
    image.save(file, "PNG", optimize=True, transparency=transparent)
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode("ascii")


def _interpolated_colormap() -> list[tuple[int, ...]]:
    """``COLORMAP`` interpolated to ``SHADES`` colours."""
    position = np.linspace(0, len(COLORMAP) - 1, SHADES)
    channels = [np.interp(position, np.arange(len(COLORMAP)), [color[c] for color in COLORMAP]) for c in range(3)]
    return [tuple(round(value) for value in color) for color in zip(*channels, strict=True)]
