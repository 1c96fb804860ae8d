"""``cgmcr2 fit``: features in, run folder out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from . import options


def fit(
    features: Annotated[Path, typer.Argument(help="A feature file (.npy, .npz, .pt, .parquet) or a feature store.")],
    output: options.Output,
    clusters: options.Clusters = None,
    preset: options.PresetOption = None,
    seed: options.Seed = None,
    part: Annotated[str, typer.Option(help="Rows to fit where the file has a split: train, test or all.")] = "train",
    config: options.Config = None,
    settings: options.Set = None,
    device: options.Device = "auto",
    precision: options.Precision = None,
    tensorboard: Annotated[
        bool, typer.Option("--tensorboard", help="Also write TensorBoard logs into the run.")
    ] = False,
    quiet: options.Quiet = False,
) -> None:
    """Cluster the rows of a feature file; a run that was cut short goes on where it was."""
    from cgmcr2.runs import fit_features

    parameters = options.gather(config, clusters, preset, seed, precision, settings)
    model = options.build(parameters, device=device, verbose=not quiet)
    clustering = fit_features(model, features, output, part=part, tensorboard=tensorboard)
    options.say_choice(output)
    typer.echo(f"{len(clustering.ids):,} rows in {sum(clustering.sizes() > 0)} clusters: {output / 'labels.csv'}")
