"""Thumbnails of the page: which images get one, and their encoding within a byte budget."""

from __future__ import annotations

import base64
import io
from itertools import zip_longest

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from cgmcr2.clustering import Clustering
from cgmcr2.images import Catalog, iter_decoded
from cgmcr2.report.limits import PageLimits


def select_rows(clustering: Clustering, limits: PageLimits, *, seed: int = 0) -> NDArray[np.int64]:
    """Row numbers of at most ``limits.thumbnails`` images, by priority.

    Clusters take turns with their most typical and least certain images, so that every cluster is represented. The
    remaining thumbnails go to random images.

    >>> select_rows(Clustering(["a", "b", "c"], [0, 1, 1]), PageLimits(thumbnails=2))
    array([0, 1])
    """
    queues: list[list[int]] = []
    for cluster in clustering.clusters:
        typical = clustering.representatives(cluster, limits.typical).tolist()
        uncertain = clustering.uncertain(cluster, limits.uncertain).tolist()
        # Interleaved two to one, so that a truncated queue holds both kinds.
        interleaved = zip_longest(typical[::2], uncertain, typical[1::2])
        queues.append(list(dict.fromkeys(row for rows in interleaved for row in rows if row is not None)))
    priority = [row for turn in zip_longest(*queues) for row in turn if row is not None][: limits.thumbnails]
    others = np.setdiff1d(np.arange(len(clustering)), priority)
    sample = np.random.default_rng(seed).permutation(others)[: limits.thumbnails - len(priority)]
    return np.concatenate([np.array(priority, dtype=np.int64), sample])


def encode(
    catalog: Catalog, clustering: Clustering, rows: NDArray[np.int64], *, max_bytes: int = PageLimits.thumbnail_bytes
) -> dict[int, str]:
    """Return {row: base64 of a WebP thumbnail}; images that cannot be read are left out.

    ``rows`` are in order of priority: when ``max_bytes`` are used up, the last rows get no thumbnail.
    """
    side = 288 if len(rows) <= 600 else 176
    index = {id: number for number, id in enumerate(catalog.ids)}
    row_of_image = {index[id]: int(row) for row in rows if (id := clustering.ids[row]) in index}

    def shrink(image: Image.Image) -> bytes:
        image.thumbnail((side, side), Image.Resampling.LANCZOS)
        file = io.BytesIO()
        image.save(file, "WEBP", quality=72, method=2)
        return file.getvalue()

    # Read in the catalog's order, because archives are read sequentially.
    files = {
        row_of_image[number]: result
        for number, result in iter_decoded(catalog, shrink, indices=sorted(row_of_image), size=side)
        if isinstance(result, bytes)
    }
    by_priority = [int(row) for row in rows if int(row) in files]
    total_bytes = np.cumsum([len(files[row]) for row in by_priority])
    within_budget = by_priority[: int(np.searchsorted(total_bytes, max_bytes, side="right"))]
    return {row: base64.b64encode(files[row]).decode("ascii") for row in within_budget}
