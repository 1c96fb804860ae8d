"""``cgmcr2 export``: the clusters of a run, taken away as folders or as a table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, cast

import typer


def export(
    run: Annotated[Path, typer.Argument(help="The folder of a run.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="What to make; it must not exist yet.")],
    to: Annotated[
        str, typer.Option("--to", help="folders, csv, json, parquet, or imagefolder (folders for training programs).")
    ] = "folders",
    link: Annotated[
        str, typer.Option("--link", help="copy, hardlink or symlink; out of an archive images are always copied.")
    ] = "copy",
    images: Annotated[
        Path | None, typer.Option("--images", help="Where the images are now, if they have moved since.")
    ] = None,
) -> None:
    """Take the clusters of a run away. Originals are never moved, and nothing is overwritten."""
    from cgmcr2.clustering import Clustering
    from cgmcr2.clustering.export import Kind, Link
    from cgmcr2.clustering.export import export as export_clustering
    from cgmcr2.report.run import find_images, read_info

    clustering = Clustering.load(run)
    catalog = find_images(read_info(run), clustering, images) if to in ("folders", "imagefolder") else None
    result = export_clustering(clustering, output, cast(Kind, to), images=catalog, link=cast(Link, link))
    typer.echo(f"{result.written:,} images in {len(clustering.clusters)} clusters: {result.path}")
    if result.missing:
        typer.echo(f"{len(result.missing):,} could not be exported:", err=True)
        for id, reason in result.missing[:20]:
            typer.echo(f"  {id!r}: {reason}", err=True)
        raise typer.Exit(1)
