"""``cgmcr2 import``: take corrected labels of another tool back as an edit."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from . import options
from .output import count, print_json

if TYPE_CHECKING:
    from cgmcr2.clustering.corrections import Corrections

logger = logging.getLogger(__name__)

EPILOG = """\b
Examples:
  cgmcr2 import run clusters.csv --preview
  cgmcr2 import run clusters.csv
  cgmcr2 import run label-studio-export.json
"""
MAX_LISTED = 5  # files in a message


def import_(
    run: options.Run,
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="CSV table of files and labels, or JSON of COCO, FiftyOne or Label Studio."
        ),
    ],
    preview: Annotated[bool, typer.Option("--preview", help="Show what would change, and change nothing.")] = False,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
) -> None:
    """Import corrected labels of a table or of another tool.

    Images move to the cluster of their label and are locked. A label that no cluster has becomes a new cluster, or the
    name of a cluster if all its images have it. Images that a person labelled like their cluster are locked. The import
    is one edit, which cgmcr2 edit RUN undo takes back.
    """
    from cgmcr2.runs import Edits

    with Edits(run, read_only=preview) as edits:
        result = edits.preview_import(file) if preview else edits.import_labels(file)
    if as_json:
        moves = [{"from": old, "to": new, "images": n} for (old, new), n in result.moves.items()]
        print_json({**result._asdict(), "edits": len(result.edits), "moves": moves, "preview": preview})
    else:
        _print_changes(result, preview=preview)
    _list(result.refused, "locked in another cluster and not moved; unlock them with cgmcr2 edit RUN unlock")
    _list(result.unknown, "not among the images of the run")


def _print_changes(result: Corrections, *, preview: bool) -> None:
    for old, new in result.renamed.items():
        typer.echo(f"Cluster {old!r} is renamed to {new!r}")
    for (old, new), number in result.moves.most_common():
        typer.echo(f"{count(number, 'image')} from {old!r} to {new!r}")
    if not result.edits:
        typer.echo(f"Nothing to change; images that agree with their label: {result.agreeing:,}")
        return
    moved = count(result.moves.total(), "image")
    done = "would be moved" if preview else "moved"
    typer.echo(f"{moved} {done}, {result.confirmed:,} confirmed, {result.agreeing:,} agree with their cluster")


def _list(files: list[str], problem: str) -> None:
    """Warn about files in one line."""
    if files:
        names = ", ".join(map(repr, files[:MAX_LISTED])) + (", ..." if len(files) > MAX_LISTED else "")
        logger.warning("%s %s %s: %s", count(len(files), "file"), "is" if len(files) == 1 else "are", problem, names)
