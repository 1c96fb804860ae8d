"""``cgmcr2 compare``: the competitors and CgMCR² on one feature file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from . import options


def compare(
    features: Annotated[
        Path,
        typer.Argument(help="A feature file (.npy, .npz, .pt, .parquet), a feature store, or a data set's name."),
    ],
    output: Annotated[Path, typer.Option("-o", "--output", help="The folder to make (or to go on with).")],
    clusters: Annotated[
        int | None,
        typer.Option("-k", "--clusters", help="How many clusters to find.  [a data set's: its classes]", metavar="N"),
    ] = None,
    methods: Annotated[
        str, typer.Option("--methods", help="all, or names with commas, such as auto,k-means,spectral.")
    ] = "all",
    seeds: Annotated[int, typer.Option("--seeds", help="Runs of each method, with seeds 0, 1, ...")] = 3,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="METHOD.NAME=VALUE", help="A setting of a method, such as --set spectral.s=30."),
    ] = None,
    labels: Annotated[
        str, typer.Option(help="The array of labels in the file; they judge and nothing else.")
    ] = "labels",
    data: options.Data = None,
    download: options.Download = False,
    encoder: Annotated[
        str, typer.Option("--encoder", help="What turns the images of a data set into numbers.")
    ] = "bundled",
    limit: Annotated[float | None, typer.Option(help="Give up a run after so many seconds.")] = None,
    quiet: options.Quiet = False,
) -> None:
    """Compare methods in one table; runs that are there already are not done again."""
    from cgmcr2.datasets import embed_dataset, is_dataset, load_dataset
    from cgmcr2.experiments import compare as run

    if data is not None and is_dataset(features) and not features.exists():
        dataset = load_dataset(str(features), data, download=download)
        features = embed_dataset(dataset, encoder, output / "features", progress=not quiet).path
        clusters = clusters or dataset.info.classes
    if clusters is None:
        raise ValueError("The number of clusters is not given; say how many to find, such as -k 10.")
    comparison = run(
        features,
        clusters,
        output,
        methods=[name.strip() for name in methods.split(",") if name.strip()],
        seeds=seeds,
        settings=_settings(settings or []),
        labels=labels,
        limit=limit,
        progress=not quiet,
        tell=None if quiet else lambda line: typer.echo(line, err=True),
    )
    why_no_plot = comparison.save()
    typer.echo(comparison.markdown())
    typer.echo(f"Saved: {output / 'table.md'}, table.csv, runs.jsonl" + ("" if why_no_plot else ", plot.png, plot.svg"))
    if why_no_plot:
        typer.echo(why_no_plot)


def _settings(items: list[str]) -> dict[str, dict[str, Any]]:
    """``METHOD.NAME=VALUE`` items by method."""
    found: dict[str, dict[str, Any]] = {}
    for item in items:
        name, equals, value = item.partition("=")
        method, dot, setting = name.strip().rpartition(".")
        if not equals or not dot:
            raise ValueError(f"--set {item} is not understood; write --set METHOD.NAME=VALUE.")
        found.setdefault(method, {})[setting] = options.parse(value.strip())
    return found
