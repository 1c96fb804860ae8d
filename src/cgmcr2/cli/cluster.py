"""``cgmcr2 cluster``: from images to a run folder with its report."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from . import options
from .output import count, evaluation_values, print_choice, print_json, run_values
from .parameters import read_parameters

if TYPE_CHECKING:
    from cgmcr2.runs import Evaluation, RunResult

EPILOG = """\b
Examples:
  cgmcr2 cluster photos -k 10 -o run
  cgmcr2 cluster photos.zip -k auto -o run
  cgmcr2 cluster photos -k 10 --encoder dinov2-small --set gamma=10 -o run
  cgmcr2 cluster photos -k 10 --encoder bundled --encoder dinov2-small -o run
  cgmcr2 cluster photos --names beach,cat,other --encoder siglip -o run
  cgmcr2 cluster cifar10 --data DIR -k 10 -o run
"""


def cluster(
    source: options.Images,
    output: options.Output,
    clusters: options.Clusters = None,
    names: options.Names = None,
    text: options.TextFile = None,
    encoder: options.Encoder = None,
    views: options.Views = None,
    preset: options.Preset = None,
    seed: options.SeedOverConfig = None,
    config: options.Config = None,
    settings: options.Set = None,
    device: options.Device = "auto",
    precision: options.Precision = None,
    data: options.Data = None,
    download: options.Download = False,
    report: Annotated[bool, typer.Option("--report/--no-report", help="Write report.html.")] = True,
    refit: Annotated[
        bool,
        typer.Option(
            "--refit",
            help="Replace the run if images, settings or the model format have changed; names you gave are kept.",
        ),
    ] = False,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
) -> None:
    """Cluster images into a run folder and write its report.

    An interrupted run is resumed. The training images of a named data set are clustered, and its labels are used for
    evaluation only.
    """
    from cgmcr2.distributed import process_group
    from cgmcr2.pipeline import cluster_images
    from cgmcr2.runs import Predictor

    parameters = read_parameters(
        config, clusters=clusters, names=names, preset=preset, seed=seed, precision=precision, settings=settings
    )
    with process_group() as group:
        result = cluster_images(
            source,
            parameters.pop("n_clusters"),
            output,
            data=data,
            download=download,
            encoder=options.encoder_name(encoder, views),
            text=text,
            report=report,
            refit=refit,
            progress=not quiet,
            device=device,
            **parameters,
        )
    if group.rank > 0:  # the first process prints the result
        return
    evaluation = None
    if data is not None:
        evaluation = Predictor(result.folder, device=device).evaluate(result.folder.store)
    if as_json:
        print_json(
            {
                **run_values(result),
                "report": str(result.folder.report) if result.folder.report.exists() else None,
                "unreadable": result.errors,
                "evaluation": evaluation_values(evaluation) if evaluation else None,
            }
        )
    else:
        _print(result, evaluation)


def _print(result: RunResult, evaluation: Evaluation | None) -> None:
    if result.choice:
        print_choice(result.choice)
    folder, clustering = result.folder, result.clustering
    typer.echo(f"{count(len(clustering), 'image')} in {count(len(clustering.clusters), 'cluster')}: {folder.labels}")
    if evaluation:
        typer.echo(f"Against the data set's labels: {evaluation.scores}")
        typer.echo(f"Protocol: {evaluation.protocol}")
    if result.errors:
        typer.echo(f"{count(result.errors, 'file')} could not be read: {folder.errors}")
    if folder.report.exists():
        typer.echo(f"Report: {folder.report}")
