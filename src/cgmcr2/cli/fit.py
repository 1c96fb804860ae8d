"""``cgmcr2 fit``: from features to a run folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from . import options
from .output import count, print_choice, print_json, run_values
from .parameters import read_parameters

EPILOG = """\b
Examples:
  cgmcr2 fit features.npz -k 10 -o run
  cgmcr2 fit features.npy -k auto --seed 1 -o run
  cgmcr2 fit clip.npz dinov2.npz -k 10 -o run
  cgmcr2 fit features.npz -k 10 --preset paper --set gamma=50 -o run
  cgmcr2 fit clip.npz --names cat,dog --text-embeddings words.npz -o run
  cgmcr2 fit features.npz --config run/run.json -o repeated
"""


def fit(
    features: Annotated[
        list[Path],
        typer.Argument(
            metavar="FEATURES...",
            help="Feature file (.npy, .npz, .pt, .parquet) or feature store. Several are feature spaces of the same "
            "rows.",
        ),
    ],
    output: options.Output,
    clusters: options.Clusters = None,
    names: options.Names = None,
    text: options.TextFile = None,
    preset: options.Preset = None,
    seed: options.SeedOverConfig = None,
    part: options.Part = "train",
    config: options.Config = None,
    settings: options.Set = None,
    device: options.Device = "auto",
    precision: options.Precision = None,
    tensorboard: Annotated[
        bool, typer.Option("--tensorboard", help="Also write TensorBoard logs to the run folder.")
    ] = False,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
) -> None:
    """Cluster the rows of a feature file into a run folder.

    An interrupted run is resumed.
    """
    from cgmcr2.distributed import process_group
    from cgmcr2.encoders.registry import SEPARATOR
    from cgmcr2.estimator import CgMCR2
    from cgmcr2.runs import fit_features

    parameters = read_parameters(
        config, clusters=clusters, names=names, preset=preset, seed=seed, precision=precision, settings=settings
    )
    wished = parameters["n_clusters"] if isinstance(parameters["n_clusters"], tuple) else ()
    if wished:
        parameters["n_clusters"] = len(wished)
    model = CgMCR2(**parameters, device=device, verbose=not quiet)
    with process_group() as group:
        result = fit_features(
            model,
            SEPARATOR.join(map(str, features)),
            output,
            part=part,
            names=wished,
            text=text,
            tensorboard=tensorboard,
        )
    if group.rank > 0:  # the first process prints the result
        return
    if as_json:
        print_json(run_values(result))
    else:
        if result.choice:
            print_choice(result.choice)
        clustering, fitted = result.clustering, result.folder.info.fitted_on.part
        rows, clusters = count(len(clustering), "row"), count(len(clustering.clusters), "cluster")
        typer.echo(f"{rows} ({fitted}) in {clusters}: {result.folder.labels}")
