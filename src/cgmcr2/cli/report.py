"""``cgmcr2 report``: the page that shows a run, written again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, cast

import typer


def report(
    run: Annotated[Path, typer.Argument(help="The folder of a run.")],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="The page to write.  [default: report.html in the run]")
    ] = None,
    images: Annotated[
        Path | None, typer.Option("--images", help="Where the images are now, if they have moved since.")
    ] = None,
    map_method: Annotated[
        str, typer.Option("--map", help="How the map is laid out: auto, tsne, pca or umap.")
    ] = "auto",
) -> None:
    """Show a run on one page that opens without a network: galleries, map, similarities, curves, settings."""
    from cgmcr2.report.projection import Method
    from cgmcr2.report.run import report_run

    path = report_run(run, output, images=images, map_method=cast(Method, map_method))
    typer.echo(f"Look at it ({path.stat().st_size / 1e6:.1f} MB): {path}")
