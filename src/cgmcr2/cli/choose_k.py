"""``cgmcr2 choose-k``: choose the number of clusters from the data."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated

import typer

from . import options
from .output import print_choice, print_json

EPILOG = """\b
Examples:
  cgmcr2 choose-k features.npz
  cgmcr2 choose-k features.npz --most 50 --json
  cgmcr2 choose-k photos -o run
"""


def choose_k(
    source: options.ImagesOrFeatures,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="DIR", help="Folder for choice.json; required for images."),
    ] = None,
    most: Annotated[
        int | None,
        typer.Option("--most", metavar="N", help="Largest number of clusters to try.  [default: 300 or n/5]"),
    ] = None,
    encoder: options.Encoder = None,
    part: options.Part = "train",
    seed: options.Seed = 0,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
) -> None:
    """Choose the number of clusters from the data, without training.

    Prints the score of each candidate, the chosen number and the runners-up. ``cluster`` can use the same folder
    afterwards and reuses the features of the images.
    """
    from cgmcr2.runs import choose_clusters

    name = options.encoder_name(encoder)
    choice = choose_clusters(source, output, most=most, encoder=name, part=part, seed=seed, progress=not quiet)
    if as_json:
        print_json(dataclasses.asdict(choice))
        return
    typer.echo(choice.picture())
    print_choice(choice)
    if output:
        typer.echo(f"Saved: {output / 'choice.json'}. To cluster with this number, add: -k {choice.chosen} -o {output}")
