"""``cgmcr2 report``: write the report of a run again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from . import choices, options
from .choices import metavar
from .output import print_json

EPILOG = """\b
Examples:
  cgmcr2 report run
  cgmcr2 report run --images moved-photos --map pca -o page.html
"""


def report(
    run: options.Run,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="FILE", help="Page to write.  [default: report.html in the run folder]"),
    ] = None,
    images: options.MovedImages = None,
    edits: options.WithEdits = True,
    map_method: Annotated[
        choices.MapMethod, typer.Option("--map", metavar=metavar(choices.MapMethod), help="Projection of the map.")
    ] = "auto",
    as_json: options.Json = False,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
) -> None:
    """Write the report of a run: one HTML page that works offline.

    It shows the clusters' images, a map, similarities, training curves and settings.
    """
    from cgmcr2.report import report_run
    from cgmcr2.runs import RunFolder

    path = report_run(RunFolder(run, with_edits=edits), output, images=images, map_method=map_method)
    size = path.stat().st_size
    if as_json:
        print_json({"report": str(path), "bytes": size})
    else:
        typer.echo(f"Report ({size / 1e6:.1f} MB): {path}")
