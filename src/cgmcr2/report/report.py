"""``write_report``: a run on one self-contained HTML page that needs no network."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray

from cgmcr2._files import write_text
from cgmcr2._random import sample_rows
from cgmcr2.clustering import Clustering
from cgmcr2.clustering.geometry import summarize_clusters
from cgmcr2.features.sources import FeatureSource
from cgmcr2.images import Catalog
from cgmcr2.images.sources import FileSource
from cgmcr2.model.levels import Levels
from cgmcr2.page import data, render_page
from cgmcr2.page.colors import PALETTE

from . import thumbnails
from .about import about_values
from .limits import PageLimits
from .projection import Method, project

MAP_NAMES = {"auto": "t-SNE", "tsne": "t-SNE", "pca": "PCA", "umap": "UMAP"}


def write_report(
    clustering: Clustering,
    out: str | os.PathLike[str],
    *,
    images: Catalog | None = None,
    features: FeatureSource | None = None,
    metrics: Sequence[Mapping[str, Any]] = (),
    settings: Mapping[str, Any] | None = None,
    errors: Sequence[tuple[str, str]] = (),
    levels: Levels | None = None,
    source: str = "",
    note: str = "",
    map_method: Method = "auto",
    limits: PageLimits | None = None,
    seed: int = 0,
) -> Path:
    """Write the report page of a clustering to ``out`` and return its path.

    Only the clustering is required; sections without data are left out.

    Parameters
    ----------
    clustering : the clusters to show
    out : the HTML file to write
    images : the images, matched by their ids; without them the page shows ids
    features : X (n, D), rows as in the clustering; a few hundred are read
    metrics : one mapping per training step, with ``step``, ``stage`` and numbers (the lines of ``metrics.jsonl``)
    settings : the contents of ``run.json``
    errors : (file, reason) of the images that could not be read
    levels : the tree of coarser and finer clusters, for a slider; it must be that of the clustering's clusters
    source : what was clustered, for the heading
    note : a notice for the top of the page
    map_method : see :func:`cgmcr2.report.projection.project`
    limits : how much of the run the page holds; default: ``PageLimits()``
    seed : random seed of the samples and of the map

    >>> import tempfile
    >>> rng = np.random.default_rng(0)
    >>> c = Clustering([f"{i}.jpg" for i in range(8)], [0, 1] * 4, embedding=rng.standard_normal((8, 4)))
    >>> write_report(c, Path(tempfile.mkdtemp()) / "report.html").name
    'report.html'
    """
    out, settings, limits = Path(out), settings or {}, limits or PageLimits()
    summaries = summarize_clusters(clustering)
    item = "image" if images is not None or settings.get("encoder_name") else "row"
    thumbnail_rows = thumbnails.select_rows(clustering, limits, seed=seed)
    encoded: dict[int, str] = {}
    if images is not None:
        encoded = thumbnails.encode(images, clustering, thumbnail_rows, max_bytes=limits.thumbnail_bytes)
    listed = listed_rows(len(clustering), thumbnail_rows, limits.rows, seed=seed)
    page_index = np.full(len(clustering), -1)
    page_index[listed] = np.arange(len(listed))
    title = data.headline(len(clustering), len(clustering.clusters), item)
    contents = {
        "title": title,
        "item": item,
        "n": len(listed),
        "total": len(clustering),
        "palette": PALETTE,
        "base": image_base_url(images, out),
        "names": clustering.names,
        "excluded": clustering.excluded,
        "stability": settings.get("stability"),
        "clusters": data.cluster_entries(
            clustering, summaries, page_index, typical=limits.typical, uncertain=limits.uncertain
        ),
        "ids": [clustering.ids[row] for row in listed],
        "rows": data.pack(data.row_values(clustering, listed)),
        "duplicates": data.duplicate_groups(clustering, page_index),
        "duplicate_groups": len(clustering.duplicates()),
        "levels": levels and data.level_values(clustering, levels, page_index),
        "map": None,
        "map_name": MAP_NAMES.get(map_method, ""),
    }
    if clustering.embedding is not None:
        positions = project(clustering.embedding[listed], map_method, seed=seed)
        contents["map"] = data.pack(np.rint(np.clip(positions, 0, 1) * 65535).astype("<u2").tobytes())
    about = about_values(
        clustering,
        features=features,
        metrics=metrics,
        settings=settings,
        errors=errors,
        summaries=summaries,
        limits=limits,
        seed=seed,
    )
    html = render_page(
        title,
        item,
        about,
        source=source,
        note=note,
        data=contents,
        thumbnails={int(page_index[row]): text for row, text in encoded.items()},
    )
    write_text(out, html)
    return out


def listed_rows(n: int, thumbnail_rows: NDArray[np.int64], max_rows: int, *, seed: int = 0) -> NDArray[np.int64]:
    """Rows on the page, sorted: all n, or those with thumbnails and a random sample of the others.

    >>> listed_rows(4, np.array([2]), max_rows=10)
    array([0, 1, 2, 3])
    >>> len(listed_rows(100, np.array([2]), max_rows=10))
    10
    """
    if n <= max_rows:
        return np.arange(n)
    others = np.setdiff1d(np.arange(n), thumbnail_rows)
    sample = others[sample_rows(len(others), max_rows - len(thumbnail_rows), np.random.default_rng(seed))]
    return np.sort(np.concatenate([thumbnail_rows, sample]))


def image_base_url(images: Catalog | None, page: Path) -> str | None:
    """URL of the folder of the original images relative to ``page``; None if they are not single files."""
    if images is None or not isinstance(images.source, FileSource):
        return None
    try:
        relative = os.path.relpath(images.source.base, page.absolute().parent)
    except ValueError:  # on another Windows drive
        return None
    return "./" + quote(os.fsencode(relative.replace(os.sep, "/")))
