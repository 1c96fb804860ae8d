"""``cgmcr2 export``: the clusters of a run as folders, as a table or as annotations, or its model as ONNX."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from . import choices, options
from .choices import metavar
from .output import count, print_json

if TYPE_CHECKING:
    from cgmcr2.runs import RunFolder

logger = logging.getLogger(__name__)

EPILOG = """\b
Examples:
  cgmcr2 export run -o sorted
  cgmcr2 export run --to imagefolder --link symlink -o train
  cgmcr2 export run --to csv -o clusters.csv
  cgmcr2 export run --to parquet --features -o embeddings.parquet
  cgmcr2 export run --to label-studio -o tasks
  cgmcr2 export run --level 7 -o coarse
  cgmcr2 export run --to onnx -o deploy
"""
MAX_LISTED = 20  # missing images listed on the terminal


def export(
    run: options.Run,
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="PATH", help="Folder or file to write; must not exist.")
    ],
    to: Annotated[
        choices.ExportFormat,
        typer.Option(
            "--to",
            metavar="FORMAT",
            help="Folders for people (folders) or training programs (imagefolder); a table (csv, json, parquet, arrow, "
            "lance); annotations for other tools (coco, fiftyone, label-studio); or the model (onnx).",
        ),
    ] = "folders",
    link: Annotated[
        choices.Link,
        typer.Option(
            "--link", metavar=metavar(choices.Link), help="Copy or link images; images in archives are always copied."
        ),
    ] = "copy",
    images: options.MovedImages = None,
    level: options.Level = None,
    edits: options.WithEdits = True,
    with_features: Annotated[
        bool, typer.Option("--features", help="Add the features of the images to a parquet, arrow or lance table.")
    ] = False,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
) -> None:
    """Export a run as folders, table, annotations or model.

    The original images stay where they are, and nothing is overwritten. The exit code is 1 if images are missing.
    Tables in parquet, arrow and lance include the embedding. cgmcr2 import reads corrected annotations and tables back.
    The onnx model is checked to label images of the run as predict does.
    """
    from cgmcr2.clustering.export import export as export_clustering
    from cgmcr2.runs import RunFolder

    folder = RunFolder(run, with_edits=edits)
    if to == "onnx":
        if level is not None:
            raise ValueError("The onnx model has the fitted clusters only; export it without --level.")
        _export_model(folder, output, images, as_json=as_json)
        return
    clustering = folder.clustering if level is None else folder.at_level(level)
    needs_images = to in ("folders", "imagefolder", "coco", "fiftyone", "label-studio")
    if needs_images and images is None and folder.info.encoder_name is None:
        raise ValueError(f"{run} was fitted on features, not on images; export a table, such as --to csv.")
    catalog = folder.catalog(images) if needs_images else None
    features = None
    if with_features:
        features = folder.features(clustering.ids)
        if features is None:
            raise FileNotFoundError(f"The features of {run} are no longer available; export without --features.")
    result = export_clustering(clustering, output, to, images=catalog, features=features, link=link)
    n_clusters = sum(cluster != clustering.excluded for cluster in clustering.clusters)
    if as_json:
        missing = [{"path": id, "reason": reason} for id, reason in result.missing]
        print_json({"output": str(result.path), "rows": result.written, "clusters": n_clusters, "missing": missing})
    else:
        typer.echo(f"{count(result.written, 'image')} in {count(n_clusters, 'cluster')}: {result.path}")
    if result.missing:
        logger.error("%s could not be exported:", count(len(result.missing), "image"))
        for id, reason in result.missing[:MAX_LISTED]:
            typer.echo(f"  {id!r}: {reason}", err=True)
        raise typer.Exit(1)


def _export_model(folder: RunFolder, output: Path, images: str | None, *, as_json: bool) -> None:
    from cgmcr2.runs.onnx import export_onnx

    result = export_onnx(folder, output, images=images)
    if as_json:
        print_json({**result._asdict(), "path": str(result.path)})
        return
    takes = f"images (encoder {result.encoder})" if result.encoder else "features"
    typer.echo(f"Model that takes {takes}: {result.path / 'model.onnx'}")
    typer.echo(f"{result.equal:,} of {count(result.checked, 'label')} equal to those of predict")
