"""|XX'|, |ZZ'| and |Pi Pi'| as pictures: rows sorted by cluster, so that orthogonal subspaces show as blocks."""

from __future__ import annotations

import base64
import io

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from cgmcr2.clustering import Clustering
from cgmcr2.report.colors import PALETTE, rgb

ROWS = 400
LEVELS = 64  # shades; more cannot be told apart, and cost bytes
STRIP = 8  # pixels for the clusters' colours along the edges
# dark to light through blue and green, each step lighter than the one before: readable in grey and colour-blind
_SHADES = ((16, 18, 38), (38, 48, 94), (42, 92, 128), (48, 140, 140), (108, 186, 126), (204, 224, 116), (252, 248, 206))


def sample_by_cluster(clustering: Clustering, most: int = ROWS, *, seed: int = 0) -> NDArray[np.int64]:
    """At most ``most`` row numbers, sorted by cluster (and by row within), each cluster as large as it is among all.

    >>> sample_by_cluster(Clustering(list("abcd"), [1, 0, 1, 0]))
    array([1, 3, 0, 2])
    """
    n = len(clustering)
    rows = np.arange(n) if n <= most else np.sort(np.random.default_rng(seed).choice(n, most, replace=False))
    return rows[np.argsort(clustering.labels[rows], kind="stable")]


def cosines(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    """|cosine| between all rows (m, D) -> (m, m).

    >>> cosines(np.array([[1, 0], [0, 2], [-3, 0]], dtype=np.float32))
    array([[1., 0., 1.],
           [0., 1., 0.],
           [1., 0., 1.]], dtype=float32)
    """
    unit = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), np.float32(1e-12))
    products: NDArray[np.float32] = np.abs(unit @ unit.T)
    return products


def picture(similarity: NDArray[np.float32], labels: NDArray[np.int64]) -> str:
    """A PNG data URI of a similarity matrix (m, m) in 0 ... 1, the clusters' colours along its top and left."""
    shades = np.clip(np.nan_to_num(similarity) * LEVELS, 0, LEVELS - 1).astype(np.uint8)
    strip = (LEVELS + labels % len(PALETTE)).astype(np.uint8)
    empty = LEVELS + len(PALETTE)
    side = len(labels) + STRIP + 2
    canvas = np.full((side, side), empty, dtype=np.uint8)
    canvas[STRIP + 2 :, STRIP + 2 :] = shades
    canvas[:STRIP, STRIP + 2 :] = strip
    canvas[STRIP + 2 :, :STRIP] = strip[:, None]
    image = Image.frombytes("P", (side, side), canvas.tobytes())
    image.putpalette(
        bytes(value for colour in [*_ramp(), *map(rgb, range(len(PALETTE))), (0, 0, 0)] for value in colour)
    )
    file = io.BytesIO()
    image.save(file, "PNG", optimize=True, transparency=empty)
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode("ascii")


def _ramp() -> list[tuple[int, ...]]:
    place = np.linspace(0, len(_SHADES) - 1, LEVELS)
    channels = [np.interp(place, np.arange(len(_SHADES)), [shade[c] for shade in _SHADES]) for c in range(3)]
    return [tuple(round(value) for value in colour) for colour in zip(*channels, strict=True)]
