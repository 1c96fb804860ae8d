"""``cgmcr2 encoders``: the image encoders and their availability."""

from __future__ import annotations

import dataclasses

import typer

from . import options
from .output import print_json

EPILOG = """\b
Examples:
  cgmcr2 encoders
  cgmcr2 encoders --json
"""


def encoders(as_json: options.Json = False) -> None:
    """List the image encoders and whether they are installed.

    Encoders that read text can also name clusters and search by text.
    """
    from cgmcr2.encoders import list_encoders

    infos = list_encoders()
    if as_json:
        print_json([dataclasses.asdict(info) for info in infos])
        return
    rows = [("NAME", "FEATURES", "READS TEXT", "AVAILABLE", "DESCRIPTION")]
    rows += [
        (
            info.name,
            "" if info.dim is None else str(info.dim),
            _yes(info.reads_text),
            _yes(info.available),
            info.description,
        )
        for info in infos
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    for row in rows:
        columns = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
        typer.echo("  ".join([*columns, row[4]]))
    for hint in dict.fromkeys(info.hint for info in infos if info.hint):
        typer.echo(f"\n{', '.join(info.name for info in infos if info.hint == hint)}: {hint}.")


def _yes(value: bool) -> str:
    return "yes" if value else "no"
