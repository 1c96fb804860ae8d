"""``write_report``: a run on one self-contained HTML page that needs no network."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
from markupsafe import Markup

from cgmcr2._files import write_text
from cgmcr2.clustering import Clustering
from cgmcr2.clustering.geometry import summarize_clusters
from cgmcr2.features.sources import FeatureSource
from cgmcr2.images import Catalog
from cgmcr2.report import page_data, thumbnails
from cgmcr2.report.choice import choice_chart
from cgmcr2.report.colors import PALETTE
from cgmcr2.report.curves import HEIGHT, WIDTH, curves
from cgmcr2.report.limits import PageLimits
from cgmcr2.report.projection import Method, project

MAP_NAMES = {"auto": "t-SNE", "tsne": "t-SNE", "pca": "PCA", "umap": "UMAP"}
SHOWN_ELSEWHERE = ("protocol", "choice", "stability", "format")  # not repeated in the section Settings


def write_report(
    clustering: Clustering,
    out: str | os.PathLike[str],
    *,
    images: Catalog | None = None,
    features: FeatureSource | None = None,
    metrics: Sequence[Mapping[str, Any]] = (),
    settings: Mapping[str, Any] | None = None,
    errors: Sequence[tuple[str, str]] = (),
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
    listed = page_data.listed_rows(len(clustering), thumbnail_rows, limits.rows, seed=seed)
    page_index = np.full(len(clustering), -1)
    page_index[listed] = np.arange(len(listed))
    data = {
        "item": item,
        "palette": PALETTE,
        "base": page_data.image_base_url(images, out),
        "map": None,
        **page_data.cluster_data(clustering, summaries, page_index),
        **page_data.row_data(clustering, listed),
        "duplicates": page_data.duplicate_groups(clustering, page_index),
    }
    duplicates = clustering.duplicates()
    if clustering.embedding is not None:
        positions = project(clustering.embedding[listed], map_method, seed=seed)
        data["map"] = page_data.pack(np.clip(positions, 0, 1) * 65535)
    html = _render(
        clustering=clustering,
        headline=page_data.headline(len(clustering), len(clustering.clusters), item),
        item=item,
        items=f"{item}s",
        ids="file names" if item == "image" else "row ids",
        id_column="File" if item == "image" else "Row",
        has_stability="stability" in settings,
        key_figures=page_data.key_figures(clustering, f"{item}s", settings.get("stability")),
        data=_json_for_script(data),
        thumbnails=_json_for_script({int(page_index[row]): text for row, text in encoded.items()}),
        has_thumbnails=bool(encoded),
        has_map=data["map"] is not None,
        map_name=MAP_NAMES.get(map_method, ""),
        duplicate_groups=len(duplicates),
        duplicates=sum(map(len, duplicates)),
        listed_groups=len(data["duplicates"]),
        similarities=page_data.similarity_figures(clustering, features, limits.similarity_rows, seed=seed),
        similarity_rows=limits.similarity_rows,
        curves=curves(metrics),
        curve_box=(WIDTH, HEIGHT),
        choice=choice_chart(settings.get("choice")),
        hierarchy=page_data.hierarchy_text(clustering),
        summaries=summaries,
        settings=page_data.settings_groups({k: v for k, v in settings.items() if k not in SHOWN_ELSEWHERE}),
        protocol=settings.get("protocol", ""),
        errors=sorted(errors),  # an interrupted run may have read the files in another order
        source=source,
        note=note,
        listed=len(listed),
    )
    write_text(out, re.sub("[\ud800-\udfff]", "\ufffd", html))  # undecodable bytes of file names
    return out


def _json_for_script(value: Any) -> Markup:
    """JSON with <, > and & escaped, so that it can neither end a script element nor begin a comment."""
    text = json.dumps(value, ensure_ascii=True, separators=(",", ":"))
    safe = text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    return Markup(safe)  # noqa: S704 - escaped above


def _render(**values: Any) -> str:
    """Render the page; its Content Security Policy admits only its own style and script, by their hashes."""
    templates = jinja2.PackageLoader("cgmcr2.report", "templates")
    environment = jinja2.Environment(
        loader=templates, autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )
    for kind, files in (("css", ["report.css"]), ("js", ["report.js", "map.js"])):
        text = "".join(templates.get_source(environment, file)[0] for file in files).replace("\r\n", "\n")
        values[kind] = Markup(text)  # noqa: S704 - our own template
        values[f"{kind}_hash"] = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return environment.get_template("report.html").render(**values)
