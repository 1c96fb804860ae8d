"""From a folder of images to a run folder: embed, fit, label, show. Each part goes on where it was."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from cgmcr2.clustering import Clustering
from cgmcr2.datasets import open_images, save_labels
from cgmcr2.encoders import load_encoder
from cgmcr2.estimator import CgMCR2
from cgmcr2.features import FeatureStore, extract
from cgmcr2.features.sources import FeatureSource, load_feature_file
from cgmcr2.images import Catalog
from cgmcr2.report.run import report_run

from .folder import Run, StrPath, fit_source, select_part


def cluster_images(
    source: StrPath,
    n_clusters: int | str,
    folder: StrPath,
    *,
    data: StrPath | None = None,
    download: bool = False,
    encoder: str = "bundled",
    report: bool = True,
    progress: bool = False,
    **parameters: Any,
) -> Clustering:
    """Find the clusters of a folder (list, archive) of images: embed, fit, label, show; each part goes on where it was.

    ``n_clusters`` is a number or "auto"; ``parameters`` are those of ``CgMCR2``. The run folder then holds
    ``labels.csv``, ``report.html``, the model, and ``errors.csv`` where files could not be read. ``source`` may also be
    the name of a data set whose files are in ``data`` (``download``: fetch those that are not): then its training
    images are clustered, and its labels, which only judge, are kept with the features.
    """
    folder = Path(folder)
    model = CgMCR2(n_clusters, verbose=progress, **parameters)
    catalog, dataset = open_images(source, data, download=download, exclude=[folder])
    model.plan(max(2, len(catalog)), 1)
    store = embed_images(catalog, encoder, folder / "features", folder / "errors.csv", progress)
    about = {
        "source": dataset.name if dataset else str(Path(source).resolve()),
        "fitted_on": {"part": "all images", "rows": store.shape[0], "width": store.shape[1]},
        "encoder": store.fingerprint,
        "encoder_name": encoder,
        "images": store.content_fingerprint,
    }
    features: FeatureSource = store
    ids = store.ids
    if dataset:
        save_labels(store, dataset)
        features, ids, part = select_part(load_feature_file(store.path), "train")
        about["fitted_on"] = {"part": part, "rows": features.shape[0], "width": store.shape[1]}
        about["data"] = str(Path(data or "").resolve())
    clustering = fit_source(model, features, ids, folder, about)
    if report and not (folder / "report.html").exists():
        report_run(folder)
    return clustering


def embed_images(catalog: Catalog, encoder: str, store: Path, errors: Path, progress: bool) -> FeatureStore:
    features = extract(catalog, load_encoder(encoder), store, progress=progress)
    if features.errors:
        features.write_errors_csv(errors)
    else:
        errors.unlink(missing_ok=True)
    return features


def predict_images(run: Run, source: StrPath, *, progress: bool = False) -> Clustering:
    """Label images that training has not seen. Their features stay in the run folder: a second call is quick."""
    encoder = run.info.get("encoder_name")
    if not encoder:
        raise ValueError(f"{run.folder} was fitted on features, not on images; give it features to label.")
    place = hashlib.sha256(str(Path(source).resolve()).encode(errors="surrogateescape")).hexdigest()[:12]
    store = run.folder / "predicted" / place
    features = embed_images(
        Catalog.from_source(source, exclude=[run.folder]), encoder, store, store / "errors.csv", progress
    )
    run.check_encoder(features.fingerprint, features.shape[1], str(source))
    return run.predict_source(features, features.ids)
