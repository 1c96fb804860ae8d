"""``cgmcr2 evaluate``: how well the clusters agree with labels that training never saw."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from . import options


def evaluate(
    run: Annotated[Path, typer.Argument(help="The folder of a finished run.")],
    features: Annotated[Path, typer.Argument(help="A feature file with labels.")],
    part: Annotated[
        str, typer.Option(help="Rows to evaluate where the file has a split: train, test or all.")
    ] = "test",
    labels: Annotated[str, typer.Option(help="The array of labels in the file.")] = "labels",
    spectral: Annotated[
        bool, typer.Option("--spectral", help="Spectral clustering of the embedding, not the head.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    device: options.Device = "auto",
) -> None:
    """Print ACC, NMI, ARI, the size of each cluster, and the protocol."""
    from cgmcr2.runs import open_run

    result = open_run(run, device=device).evaluate(features, part=part, labels=labels, spectral=spectral)
    if as_json:
        scores = {name: round(value, 6) for name, value in result.scores._asdict().items()}
        typer.echo(json.dumps({**scores, "sizes": result.sizes, "protocol": str(result.protocol)}))
        return
    typer.echo(str(result.scores))
    typer.echo(f"Protocol: {result.protocol}")
    typer.echo(f"Sizes: {', '.join(f'{size:,}' for size in result.sizes)}")
