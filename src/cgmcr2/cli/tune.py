"""``cgmcr2 tune``: search gamma, eps and the number of neighbours with Optuna."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Annotated

import typer

from cgmcr2.experiments.choices import TuningScore

from . import options
from .choices import Preset, metavar
from .compare import parse_method_settings
from .output import print_json

logger = logging.getLogger(__name__)

EPILOG = """\b
Examples:
  cgmcr2 tune features.npz -k 10 -o tuned
  cgmcr2 tune features.npz -k 10 --preset paper --trials 40 --seeds 3 -o tuned
  cgmcr2 tune features.npz -k 10 --by labels --json -o tuned-with-labels
"""


def tune(
    features: Annotated[
        Path,
        typer.Argument(metavar="FEATURES", help="Feature file (.npy, .npz, .pt, .parquet) or feature store."),
    ],
    output: Annotated[Path, typer.Option("-o", "--output", metavar="DIR", help="Output folder; resumes if it exists.")],
    clusters: Annotated[int, typer.Option("-k", "--clusters", metavar="N", help="Number of clusters.")],
    by: Annotated[
        TuningScore,
        typer.Option(
            "--by",
            metavar=metavar(TuningScore),
            help="Score: stability (needs no labels), or labels (accuracy; every output says so).",
        ),
    ] = "stability",
    labels: Annotated[
        str, typer.Option("--labels", metavar="NAME", help="Label array in the file, for --by labels.")
    ] = "labels",
    preset: Annotated[
        Preset, typer.Option("--preset", metavar=metavar(Preset), help="Source of all other settings.")
    ] = "auto",
    trials: Annotated[
        int, typer.Option("--trials", metavar="N", help="Settings to try; a larger number extends the search.")
    ] = 20,
    seeds: Annotated[
        int, typer.Option("--seeds", metavar="N", help="Training runs per trial; the score is their mean.")
    ] = 1,
    rows: Annotated[int, typer.Option("--rows", metavar="N", help="Maximum number of rows, sampled at random.")] = 5000,
    part: options.Part = "train",
    seed: Annotated[int, typer.Option("--seed", metavar="N", help="Random seed.")] = 0,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Fixed setting of all trials; repeatable."),
    ] = None,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
) -> None:
    """Search gamma, eps and the number of neighbours.

    First, gamma is doubled until clusters no longer collapse. Then Optuna's TPE sampler proposes settings. An
    interrupted search is resumed.
    """
    from cgmcr2.experiments import tune as search
    from cgmcr2.experiments.tuning.result import LABELS_USED

    if by == "labels":
        logger.warning(LABELS_USED)
    result = search(
        features,
        clusters,
        output,
        by=by,
        labels=labels,
        preset=preset,
        settings=parse_method_settings(settings or [], default=preset).get(preset, {}),
        trials=trials,
        seeds=seeds,
        rows=rows,
        part=part,
        seed=seed,
        progress=not quiet,
    )
    no_plot = result.save()
    if as_json:
        print_json(result.to_dict())
        return
    for line in result.summary():
        typer.echo(line)
    typer.echo(f"Saved: {output / 'table.md'}, table.csv, best.json" + ("" if no_plot else ", plot.png, plot.pdf"))
    if no_plot:
        typer.echo(no_plot)
