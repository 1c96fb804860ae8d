"""``cgmcr2 encoders``: which image encoders there are, and which can be used on this machine."""

from __future__ import annotations

import dataclasses
import json
from typing import Annotated

import typer


def encoders(as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """List the image encoders: name, length of the features, whether it can be used here, and what to do if not."""
    from cgmcr2.encoders import list_encoders

    infos = list_encoders()
    if as_json:
        typer.echo(json.dumps([dataclasses.asdict(info) for info in infos]))
        return
    rows = [("NAME", "FEATURES", "HERE", "WHAT IT IS")]
    rows += [
        (info.name, "" if info.dim is None else str(info.dim), "yes" if info.available else "no", info.description)
        for info in infos
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    for row in rows:
        start = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=False))
        typer.echo(f"{start}  {row[3]}")
    for hint in dict.fromkeys(info.hint for info in infos if info.hint):
        typer.echo(f"\n{', '.join(info.name for info in infos if info.hint == hint)}: {hint}.")
