"""``cgmcr2 tune``: a feasible gamma, then the best eps, gamma and s."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from . import options


def tune(
    features: Annotated[Path, typer.Argument(help="A feature file (.npy, .npz, .pt, .parquet) or a feature store.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="The folder to make (or to go on with).")],
    clusters: Annotated[int, typer.Option("-k", "--clusters", help="How many clusters to find.", metavar="N")],
    by: Annotated[
        str, typer.Option("--by", help="agreement: without labels; labels: by accuracy, and every output says so.")
    ] = "agreement",
    labels: Annotated[str, typer.Option(help="The array of labels in the file, for --by labels.")] = "labels",
    preset: Annotated[str, typer.Option("--preset", help="auto, paper or reference.")] = "auto",
    trials: Annotated[int, typer.Option("--trials", help="Settings to try; more can be added later.")] = 20,
    seeds: Annotated[int, typer.Option("--seeds", help="Runs of each, whose mean counts.")] = 1,
    rows: Annotated[int, typer.Option("--rows", help="At most so many rows, drawn at random.")] = 5000,
    part: Annotated[str, typer.Option(help="Rows to use where the file has a split: train, test or all.")] = "train",
    seed: Annotated[int, typer.Option("--seed", help="Same seed, same search.")] = 0,
    settings: options.Set = None,
    quiet: options.Quiet = False,
) -> None:
    """Find a gamma at which clusters do not collapse, then search eps, gamma and s; goes on where it was cut short."""
    from cgmcr2.experiments.tune import tune as run
    from cgmcr2.experiments.tuning import MARK

    fixed = options.gather(None, str(clusters), None, None, None, settings)
    del fixed["n_clusters"]
    if by == "labels":
        typer.echo(MARK, err=True)
    tuning = run(
        features,
        clusters,
        output,
        by=by,
        labels=labels,
        preset=preset,
        settings=fixed,
        trials=trials,
        seeds=seeds,
        rows=rows,
        part=part,
        seed=seed,
        progress=not quiet,
        tell=None if quiet else lambda line: typer.echo(line, err=True),
    )
    why_no_plot = tuning.save()
    for line in tuning.lines():
        typer.echo(line)
    typer.echo(f"Saved: {output / 'table.md'}, table.csv, best.json" + ("" if why_no_plot else ", plot.png, plot.pdf"))
    if why_no_plot:
        typer.echo(why_no_plot)
