"""``cgmcr2 export``: the clusters of a run as folders of images or as a table."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Annotated

import typer

from . import choices, options
from .choices import metavar
from .output import count, print_json

logger = logging.getLogger(__name__)

EPILOG = """\b
Examples:
  cgmcr2 export run -o sorted
  cgmcr2 export run --to imagefolder --link symlink -o train
  cgmcr2 export run --to csv -o clusters.csv
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
            metavar=metavar(choices.ExportFormat),
            help="Format: folders for people, imagefolder for training programs, or a table.",
        ),
    ] = "folders",
    link: Annotated[
        choices.Link,
        typer.Option(
            "--link", metavar=metavar(choices.Link), help="Copy or link images; images in archives are always copied."
        ),
    ] = "copy",
    images: options.MovedImages = None,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
) -> None:
    """Export the clusters of a run as folders or as a table.

    The original images stay where they are, and nothing is overwritten. The exit code is 1 if images are missing.
    """
    from cgmcr2.clustering.export import export as export_clustering
    from cgmcr2.runs import RunFolder

    folder = RunFolder(run)
    needs_images = to in ("folders", "imagefolder")
    if needs_images and images is None and folder.info.encoder_name is None:
        raise ValueError(f"{run} was fitted on features, not on images; export a table, such as --to csv.")
    catalog = folder.catalog(images) if needs_images else None
    result = export_clustering(folder.clustering, output, to, images=catalog, link=link)
    n_clusters = len(folder.clustering.clusters)
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
