"""What the report page is made of: a run's numbers, sampled and packed so that the page stays small."""

from __future__ import annotations

import base64
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray

from cgmcr2.clustering import Clustering
from cgmcr2.clustering.geometry import summarize_clusters
from cgmcr2.features.sources import FeatureSource, read_rows
from cgmcr2.images import Catalog
from cgmcr2.images.sources import FileSource
from cgmcr2.report.curves import HEIGHT, WIDTH
from cgmcr2.report.similarity import cosines, picture, sample_by_cluster
from cgmcr2.report.thumbnails import TYPICAL, UNCERTAIN

LISTED = 100_000  # images that the page lists and maps; of larger sets it shows a sample of that size
CLOSE_CALL = 0.1  # a lead below this is worth a look


def choose_listed(n: int, chosen: NDArray[np.int64], *, seed: int = 0) -> NDArray[np.int64]:
    """The rows that the page knows, in order: all, or those chosen for a thumbnail and a random sample of the others.

    >>> choose_listed(4, np.array([2]))
    array([0, 1, 2, 3])
    """
    if n <= LISTED:
        return np.arange(n)
    others = np.setdiff1d(np.arange(n), chosen)
    sample = np.random.default_rng(seed).choice(others, LISTED - len(chosen), replace=False)
    return np.sort(np.concatenate([chosen, sample]))


def of_clusters(clustering: Clustering, place: Mapping[int, int], pictured: set[int]) -> dict[str, Any]:
    """Names, sizes and confidence of the clusters, and their galleries as places on the page ({row: place})."""
    sizes = clustering.sizes().tolist()
    galleries: dict[str, list[list[int]]] = {"typical": [], "uncertain": []}
    for cluster, size in enumerate(sizes):
        typical = clustering.representatives(cluster, size).tolist()
        uncertain = clustering.uncertain(cluster, size).tolist()
        if not pictured.issuperset(typical):  # not all of it fits the page: the best of each kind, no strays
            typical, uncertain = typical[:TYPICAL], uncertain[:UNCERTAIN]
        for kind, rows in (("typical", typical), ("uncertain", uncertain)):
            galleries[kind].append([place[row] for row in rows if (row in pictured if pictured else row in place)])
    return {
        "names": clustering.names,
        "sizes": sizes,
        "sure": [_median(clustering.confidence[clustering.rows(c)]) for c in range(clustering.n_clusters)],
        "confused": _confused(clustering),
        **galleries,
    }


def of_images(clustering: Clustering, rows: NDArray[np.int64]) -> dict[str, Any]:
    """For each image on the page its id, cluster, runner-up, confidence and margin (in 1/10000)."""
    second = None
    if clustering.probabilities is not None and clustering.n_clusters > 1:
        others = np.array(clustering.probabilities[rows])
        others[np.arange(len(rows)), clustering.labels[rows]] = -1
        second = packed(others.argmax(axis=1))
    return {
        "ids": [clustering.ids[row] for row in rows],
        "labels": packed(clustering.labels[rows]),
        "second": second,
        "confidence": packed(np.clip(clustering.confidence[rows], 0, 1) * 10_000),
        "margin": packed(np.clip(clustering.margin[rows], 0, 1) * 10_000),
        "outlier": packed(np.clip(clustering.outlier[rows], 0, 1) * 10_000),
    }


def _confused(clustering: Clustering) -> list[int | None]:
    """For each cluster the other one that its images lean to most, if they do."""
    found = {fact.cluster: fact.confused_with for fact in summarize_clusters(clustering)}
    return [found.get(cluster) for cluster in range(clustering.n_clusters)]


def of_choice(choice: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """How the number of clusters was chosen, as a curve over the logarithm of k in a WIDTH x HEIGHT box."""
    if choice is None:
        return None
    k, scores = np.log(choice["candidates"]), np.array(choice["scores"])
    x = WIDTH * (k - k[0]) / max(float(np.ptp(k)), 1e-9)
    y = HEIGHT * (1 - (scores - scores.min()) / max(float(np.ptp(scores)), 1e-9))
    marked = [choice["chosen"], *choice["runners_up"]]
    return {
        "verdict": choice["verdict"],
        "others": ", ".join(map(str, choice["runners_up"])),
        "path": "M" + "L".join(f"{a:.1f} {b:.1f}" for a, b in zip(x, y, strict=True)),
        "first": choice["candidates"][0],
        "last": choice["candidates"][-1],
        "marks": [
            (round(float(a), 1), round(float(b), 1), number)
            for a, b, number in zip(x, y, choice["candidates"], strict=True)
            if number in marked
        ],
    }


def tree(clustering: Clustering) -> str:
    """The clusters joined by the angles between their subspaces, as lines of text; none for fewer than three."""
    if clustering.embedding is None or len(clustering.clusters) < 3:
        return ""
    return clustering.hierarchy().text(clustering.names)


def facts(clustering: Clustering, agreement: float | None = None) -> list[tuple[str, str]]:
    """The run in a few (number, what it counts)."""
    if not len(clustering):
        return [("0", "images")]
    sizes = clustering.sizes()[clustering.clusters]
    borne_out = [] if agreement is None else [(f"{100 * agreement:.0f} %", "borne out by other partitions")]
    return [
        *borne_out,
        (f"{sizes.min():,} to {sizes.max():,}", "images in a cluster"),
        (f"{100 * _median(clustering.confidence):.0f} %", "median confidence"),
        (f"{int((clustering.margin < CLOSE_CALL).sum()):,}", f"close calls, lead below {100 * CLOSE_CALL:.0f} %"),
    ]


def matrices(clustering: Clustering, features: FeatureSource | None, *, seed: int = 0) -> list[dict[str, str]]:
    """Pictures of the similarities of a sample of rows, of those of X, Z and Pi that there are."""
    rows = sample_by_cluster(clustering, seed=seed)
    if len(rows) < 2:
        return []
    forwards = np.sort(rows)  # the order in which they lie on disk
    back = np.searchsorted(forwards, rows)
    out = []
    for name, what, array in (
        ("|XXᵀ|", "the features, as the encoder gave them", features),
        ("|ZZᵀ|", "the embedding, as it was learned", clustering.embedding),
        ("|ΠΠᵀ|", "the memberships", clustering.probabilities),
    ):
        if array is not None:
            values = read_rows(array, forwards)[back]
            similarity = np.abs(values @ values.T) if array is clustering.probabilities else cosines(values)
            out.append({"name": name, "what": what, "src": picture(similarity, clustering.labels[rows])})
    return out


def groups(settings: Mapping[str, Any], title: str = "") -> list[tuple[str, list[tuple[str, str]]]]:
    """Nested settings as titled lists of (name, value), plain values first.

    >>> groups({"k": 3, "model": {"hidden_width": 64, "bias": True}})
    [('', [('k', '3')]), ('model', [('hidden width', '64'), ('bias', 'yes')])]
    """
    plain = [(key.replace("_", " "), _text(value)) for key, value in settings.items() if not isinstance(value, Mapping)]
    out = [(title, plain)] if plain else []
    for key, value in settings.items():
        if isinstance(value, Mapping):
            out += groups(value, " · ".join(filter(None, [title, key.replace("_", " ")])))
    return out


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return format(value, ".6g")
    if isinstance(value, list):
        text = ", ".join(_text(item) for item in value[:12])
        return f"{text}, … ({len(value):,} in all)" if len(value) > 12 else text or "none"
    return "none" if value is None else str(value)


def _median(values: NDArray[np.float32]) -> float:
    return round(float(np.median(values)), 4) if len(values) else 0.0


def link_base(images: Catalog | None, out: Path) -> str | None:
    """Where the originals lie as seen from the page, if they are files of their own."""
    if images is None or not isinstance(images.source, FileSource):
        return None
    try:
        relative = os.path.relpath(images.source.base, out.absolute().parent)
    except ValueError:  # on another drive
        return None
    return "./" + quote(os.fsencode(relative.replace(os.sep, "/")))


def packed(values: NDArray[Any]) -> str:
    """Whole numbers below 65,536 as base64, which the page reads as a typed array.

    >>> packed(np.array([1, 258]))
    'AQACAQ=='
    """
    return base64.b64encode(np.rint(values).astype("<u2").tobytes()).decode("ascii")
