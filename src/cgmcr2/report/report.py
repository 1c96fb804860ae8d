"""One page that shows a whole run: galleries, map, similarities, learning curves, settings. It needs no network."""

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
from cgmcr2.report import report_data, thumbnails
from cgmcr2.report.colors import PALETTE
from cgmcr2.report.curves import HEIGHT, WIDTH, curves
from cgmcr2.report.projection import Method, project


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
    seed: int = 0,
) -> Path:
    """Write the report page of a clustering to the file ``out`` and return its path.

    Everything but the clustering is optional; what is missing is left off the page.

    Parameters
    ----------
    images : where the images are found by their ids; without it the page shows names
    features : X, rows as in the clustering; a few hundred of them are read
    metrics : one mapping a training step, with ``step``, ``stage`` and numbers (the lines of metrics.jsonl)
    settings : what to show as settings (the content of run.json)
    errors : (file, reason) of the images that could not be read
    source : what was clustered, for the heading
    note : a sentence that the reader has to see first
    map_method : see :func:`cgmcr2.report.projection.project`

    >>> import tempfile
    >>> rng = np.random.default_rng(0)
    >>> c = Clustering([f"{i}.jpg" for i in range(8)], [0, 1] * 4, embedding=rng.standard_normal((8, 4)))
    >>> write_report(c, Path(tempfile.mkdtemp()) / "report.html").name
    'report.html'
    """
    out = Path(out)
    chosen = thumbnails.choose(clustering, seed=seed)
    small = {} if images is None else thumbnails.encode(images, clustering, chosen)
    shown = report_data.choose_listed(len(clustering), chosen, seed=seed)
    place = {int(row): number for number, row in enumerate(shown)}
    data = {
        "palette": PALETTE,
        "base": report_data.link_base(images, out),
        "map": None,
        **report_data.of_clusters(clustering, place, set(small)),
        **report_data.of_images(clustering, shown),
    }
    if clustering.embedding is not None:
        positions = project(clustering.embedding[shown], map_method, seed=seed)
        data["map"] = report_data.packed(np.clip(positions, 0, 1) * 65535)
    html = _render(
        clustering=clustering,
        facts=report_data.facts(clustering, (settings or {}).get("stability")),
        data=_script_safe(data),
        thumbnails=_script_safe({place[row]: text for row, text in small.items()}),
        pictured=len(small),
        has_map=data["map"] is not None,
        map_name={"pca": "PCA", "umap": "UMAP"}.get(map_method, "t-SNE"),
        matrices=report_data.matrices(clustering, features, seed=seed),
        curves=curves(metrics),
        curve_box=(WIDTH, HEIGHT),
        choice=report_data.of_choice((settings or {}).get("choice")),
        tree=report_data.tree(clustering),
        table=summarize_clusters(clustering),
        settings=report_data.groups(
            {key: value for key, value in (settings or {}).items() if key not in ("protocol", "choice")}
        ),
        protocol=(settings or {}).get("protocol", ""),
        errors=errors,
        source=source,
        note=note,
        listed=len(shown),
    )
    write_text(out, re.sub("[\ud800-\udfff]", "\ufffd", html))  # undecodable bytes of file names
    return out


def _script_safe(value: Any) -> Markup:
    """JSON that can stand inside a script element: nothing in it can end the element or begin a comment."""
    text = json.dumps(value, ensure_ascii=True, separators=(",", ":"))
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))


def _render(**values: Any) -> str:
    """The page with its style and script; their hashes are the only ones that the page's policy lets run."""
    templates = jinja2.PackageLoader("cgmcr2.report", "templates")
    environment = jinja2.Environment(
        loader=templates, autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )
    for kind, files in (("css", ["report.css"]), ("js", ["report.js", "map.js"])):
        text = "".join(templates.get_source(environment, file)[0] for file in files).replace("\r\n", "\n")
        values[kind] = Markup(text)
        values[f"{kind}_hash"] = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return environment.get_template("report.html").render(**values)
