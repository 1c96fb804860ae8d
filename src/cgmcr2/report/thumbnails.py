"""Which images the report carries with it, and those images made small: bounded in number and in bytes."""

from __future__ import annotations

import base64
import io
from itertools import zip_longest

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from cgmcr2.clustering import Clustering
from cgmcr2.images import Catalog, iter_decoded

TYPICAL, UNCERTAIN = 28, 12  # images of a cluster that come first, before any other is chosen
MOST = 2_500  # images in all
MOST_BYTES = 20 * 2**20  # of their files; base64 makes it 27 MB on the page


def choose(clustering: Clustering, most: int = MOST, *, seed: int = 0) -> NDArray[np.int64]:
    """Row numbers of at most ``most`` images, the ones to show first first.

    Clusters take turns, each with its most typical and its least certain images, so that none goes without; what is
    left over goes to images drawn at random, which the map shows.

    >>> choose(Clustering(["a", "b", "c"], [0, 1, 1]), most=2)
    array([0, 1])
    """
    wanted: list[list[int]] = []
    for cluster in clustering.clusters:
        typical = clustering.representatives(cluster, TYPICAL).tolist()
        uncertain = clustering.uncertain(cluster, UNCERTAIN).tolist()
        # two typical, one uncertain, and so on: whatever the turn, both kinds are there
        thirds = zip_longest(typical[::2], uncertain, typical[1::2])
        wanted.append(list(dict.fromkeys(row for third in thirds for row in third if row is not None)))
    chosen = [row for turn in zip_longest(*wanted) for row in turn if row is not None][:most]
    others = np.setdiff1d(np.arange(len(clustering)), chosen)
    extra = np.random.default_rng(seed).permutation(others)[: most - len(chosen)]
    return np.concatenate([np.array(chosen, dtype=np.int64), extra])


def encode(
    catalog: Catalog, clustering: Clustering, rows: NDArray[np.int64], *, most_bytes: int = MOST_BYTES
) -> dict[int, str]:
    """The images of these rows as small WebP files in base64, {row: text}; those that cannot be read are left out.

    Few images are made larger than many. If the bytes run out, the last of ``rows`` go without.
    """
    side = 288 if len(rows) <= 600 else 176
    index = {id: number for number, id in enumerate(catalog.ids)}
    places = {index[id]: int(row) for row in rows if (id := clustering.ids[row]) in index}

    def shrink(image: Image.Image) -> bytes:
        image.thumbnail((side, side), Image.Resampling.LANCZOS)
        file = io.BytesIO()
        image.save(file, "WEBP", quality=72, method=2)
        return file.getvalue()

    # in the catalog's order, since an archive is read forwards; the budget is then given out in the order of rows
    small = {
        places[number]: result
        for number, result in iter_decoded(catalog, shrink, indices=sorted(places), size=side)
        if isinstance(result, bytes)
    }
    kept: dict[int, str] = {}
    for row in (int(row) for row in rows if int(row) in small):
        most_bytes -= len(small[row])
        if most_bytes < 0:
            break
        kept[row] = base64.b64encode(small[row]).decode("ascii")
    return kept
