"""A run folder as the report and the export see it: the clustering, and where its images and features are."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from cgmcr2.clustering import Clustering
from cgmcr2.datasets import load_dataset
from cgmcr2.features.sources import FeatureSource, Subset, load_feature_file
from cgmcr2.features.store import FeatureStore
from cgmcr2.images import Catalog
from cgmcr2.report.projection import Method
from cgmcr2.report.report import write_report


def report_run(
    folder: str | os.PathLike[str],
    out: str | os.PathLike[str] | None = None,
    *,
    images: str | os.PathLike[str] | None = None,
    map_method: Method = "auto",
) -> Path:
    """Write the report of a run folder to ``out``, or to ``report.html`` in the folder; returns its path.

    The images are looked for where they were clustered, or at ``images`` if they have moved. The page is written
    without them, and says so, where they are not found.
    """
    folder = Path(folder)
    clustering = Clustering.load(folder)
    info = read_info(folder)
    catalog, note = None, ""
    try:
        catalog = find_images(info, clustering, images)
    except (OSError, ValueError) as error:
        if images is not None:
            raise
        if (folder / "features").is_dir():  # it was made from images
            note = f"Names instead of pictures: {error}"
    metrics: list[dict[str, Any]] = []
    if (folder / "metrics.jsonl").is_file():
        from cgmcr2.training.monitor import read_metrics

        metrics = read_metrics(folder / "metrics.jsonl")
    store = folder / "features"
    return write_report(
        clustering,
        folder / "report.html" if out is None else out,
        images=catalog,
        features=find_features(folder, info, clustering.ids),
        metrics=metrics,
        settings=info,
        errors=FeatureStore.open(store).errors if (store / "manifest.json").is_file() else (),
        source=Path(info.get("source", "")).name,
        note=note,
        map_method=map_method,
    )


def read_info(folder: Path) -> dict[str, Any]:
    """What ``run.json`` says; nothing if there is none, for a clustering that was saved by hand."""
    path = folder / "run.json"
    try:
        info: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    except ValueError as error:
        raise ValueError(f"{path} is damaged ({error}); make the run again.") from None
    return info


def find_images(info: dict[str, Any], clustering: Clustering, images: str | os.PathLike[str] | None = None) -> Catalog:
    """The catalog that holds the clustering's images: at ``images``, or at the run's source."""
    place = images if images is not None else info.get("source")
    if place is None:
        raise ValueError("The run does not say where its images are; give the folder or archive that holds them.")
    data = info.get("data") if images is None else None
    catalog = load_dataset(str(place), data).catalog if data else Catalog.from_source(place)
    if not set(clustering.ids).intersection(catalog.ids):
        raise ValueError(f"{os.fspath(place)} holds none of the run's images; give the folder or archive that does.")
    return catalog


def find_features(folder: Path, info: dict[str, Any], ids: Sequence[str]) -> FeatureSource | None:
    """The features of these ids, in this order: from the run's own store, or the feature file that it was made of."""
    store = folder / "features"
    place = store if store.is_dir() else info.get("source")
    if place is None:
        return None
    try:
        file = load_feature_file(place)
    except (OSError, ValueError, ImportError):  # images, or a file that has gone: the report does without
        return None
    index = {id: row for row, id in enumerate(file.ids or map(str, range(file.features.shape[0])))}
    if not index.keys() >= set(ids):
        return None
    return Subset(file.features, np.array([index[id] for id in ids], dtype=np.int64))
