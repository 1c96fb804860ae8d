"""``cgmcr2 cluster``: images in, clusters and a page that shows them out."""

from __future__ import annotations

from typing import Annotated

import typer

from . import options


def cluster(
    source: options.Images,
    output: options.Output,
    clusters: options.Clusters = None,
    encoder: Annotated[str, typer.Option("--encoder", help="What turns an image into numbers.")] = "bundled",
    preset: options.PresetOption = None,
    seed: options.Seed = None,
    config: options.Config = None,
    settings: options.Set = None,
    device: options.Device = "auto",
    precision: options.Precision = None,
    data: options.Data = None,
    download: options.Download = False,
    report: Annotated[bool, typer.Option(help="Write report.html.")] = True,
    quiet: options.Quiet = False,
) -> None:
    """Find the groups of your images; a run that was cut short goes on where it was."""
    from cgmcr2.runs import cluster_images, open_run

    parameters = options.gather(config, clusters, preset, seed, precision, settings)
    options.build(parameters)
    clustering = cluster_images(
        source,
        parameters.pop("n_clusters"),
        output,
        data=data,
        download=download,
        encoder=encoder,
        report=report,
        progress=not quiet,
        device=device,
        **parameters,
    )
    options.say_choice(output)
    typer.echo(f"{len(clustering.ids):,} images in {len(clustering.clusters)} clusters: {output / 'labels.csv'}")
    if data is not None:
        evaluation = open_run(output, device=device).evaluate(output / "features")
        typer.echo(f"By the data set's labels: {evaluation.scores}")
        typer.echo(f"Protocol: {evaluation.protocol}")
    if (output / "errors.csv").exists():
        typer.echo(f"Some files could not be read, with the reasons: {output / 'errors.csv'}")
    if report:
        typer.echo(f"Look at them: {output / 'report.html'}")
