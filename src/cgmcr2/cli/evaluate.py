"""``cgmcr2 evaluate``: compare the clusters of a run with known labels."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from . import options
from .output import evaluation_values, print_json

EPILOG = """\b
Examples:
  cgmcr2 evaluate run features.npz
  cgmcr2 evaluate run features.npz --part all --spectral --json
"""


def evaluate(
    run: options.Run,
    features: Annotated[Path, typer.Argument(metavar="FEATURES", help="Feature file or feature store with labels.")],
    part: options.Part = "test",
    labels: Annotated[
        str, typer.Option("--labels", metavar="NAME", help="Array of labels in the feature file.")
    ] = "labels",
    spectral: Annotated[
        bool, typer.Option("--spectral", help="Evaluate spectral clustering of the embedding, not the cluster head.")
    ] = False,
    edits: options.WithEdits = True,
    device: options.Device = "auto",
    as_json: options.Json = False,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
) -> None:
    """Compare the clusters of a run with known labels.

    Prints accuracy (ACC), normalized mutual information (NMI), adjusted Rand index (ARI), the protocol and the size of
    each cluster.
    """
    from cgmcr2.runs import Predictor, RunFolder

    evaluation = Predictor(RunFolder(run, with_edits=edits), device=device).evaluate(
        features, part=part, labels=labels, spectral=spectral
    )
    if as_json:
        print_json(evaluation_values(evaluation))
        return
    typer.echo(str(evaluation.scores))
    typer.echo(f"Protocol: {evaluation.protocol}")
    typer.echo(f"Sizes: {', '.join(f'{size:,}' for size in evaluation.sizes)}")
