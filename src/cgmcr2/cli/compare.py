"""``cgmcr2 compare``: compare CgMCR² and the baselines on one feature file."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Annotated, Any

import typer

from cgmcr2.experiments.choices import CompareProtocol

from . import options
from .choices import metavar
from .output import print_json
from .parameters import parse_value

logger = logging.getLogger(__name__)

EPILOG = """\b
Examples:
  cgmcr2 compare features.npz -k 10 -o comparison
  cgmcr2 compare features.npz -k 10 --methods auto,k-means -o comparison
  cgmcr2 compare features.npz -k 10 --protocol all -o comparison-all
  cgmcr2 compare features.npz -k 10 --set spectral.s=30 --json -o comparison
  cgmcr2 compare cifar10 --data DIR --encoder bundled -o comparison
"""


def compare(
    features: Annotated[
        Path,
        typer.Argument(
            metavar="FEATURES",
            help="Feature file (.npy, .npz, .pt, .parquet), .npz of images, feature store, or name of a data set.",
        ),
    ],
    output: Annotated[Path, typer.Option("-o", "--output", metavar="DIR", help="Output folder; resumes if it exists.")],
    clusters: Annotated[
        int | None,
        typer.Option(
            "-k", "--clusters", metavar="N", help="Number of clusters.  [default for a data set: its number of classes]"
        ),
    ] = None,
    methods: Annotated[
        str,
        typer.Option("--methods", metavar="NAMES", help="Methods separated by commas: auto,k-means,spectral; or all."),
    ] = "all",
    seeds: Annotated[int, typer.Option("--seeds", metavar="N", help="Runs per method, with seeds 0, 1, ...")] = 3,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="METHOD.NAME=VALUE", help="Setting of a method; repeatable."),
    ] = None,
    labels: Annotated[
        str, typer.Option("--labels", metavar="NAME", help="Label array in the file, used for scores only.")
    ] = "labels",
    protocol: Annotated[
        CompareProtocol,
        typer.Option(
            "--protocol",
            metavar=metavar(CompareProtocol),
            help="unseen: fit split 0, predict split 1; all: fit both splits, score split 1.",
        ),
    ] = "unseen",
    data: options.Data = None,
    download: options.Download = False,
    encoder: Annotated[
        str, typer.Option("--encoder", metavar="NAME", help="Encoder for the images of a data set.")
    ] = "bundled",
    limit: Annotated[
        float | None, typer.Option("--limit", metavar="SECONDS", help="Time limit of a run in seconds.")
    ] = None,
    in_process: Annotated[
        bool,
        typer.Option(
            "--in-process",
            help="Run in this process: faster, but memory is not measured and a crash ends the command.",
        ),
    ] = False,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
) -> None:
    """Compare clustering methods on one feature file.

    Finished runs are not repeated. Failed runs are listed with the reason and retried next time. The exit code is 1 if
    no run has finished.
    """
    from cgmcr2.datasets import embed_dataset, is_dataset, load_dataset
    from cgmcr2.experiments import compare as compare_methods

    if data is not None and is_dataset(features) and not features.exists():
        dataset = load_dataset(str(features), data, download=download)
        features = embed_dataset(dataset, encoder, output / "features", progress=not quiet).path
        clusters = clusters or dataset.info.classes
    if clusters is None:
        raise ValueError("The number of clusters is missing; give it with -k, such as -k 10.")
    comparison = compare_methods(
        features,
        clusters,
        output,
        methods=split_names(methods),
        seeds=seeds,
        settings=parse_method_settings(settings or []),
        protocol=protocol,
        labels=labels,
        limit=limit,
        in_process=in_process,
        progress=not quiet,
    )
    no_plot = comparison.save()
    if as_json:
        print_json(comparison.to_dict())
    else:
        typer.echo(comparison.markdown())
        typer.echo(f"Saved: {output / 'table.md'}, table.csv, runs.jsonl" + ("" if no_plot else ", plot.png, plot.svg"))
        if no_plot:
            typer.echo(no_plot)
    if not comparison.has_results:
        logger.error("No run has finished; the reasons are in %s.", output / "table.md")
        raise typer.Exit(1)


def parse_method_settings(items: list[str], default: str | None = None) -> dict[str, dict[str, Any]]:
    """Return the settings in ``METHOD.NAME=VALUE`` items by method; ``NAME=VALUE`` is for the ``default`` method.

    >>> parse_method_settings(["spectral.s=30"])
    {'spectral': {'s': 30}}
    """
    settings: dict[str, dict[str, Any]] = {}
    for item in items:
        name, equals, value = item.partition("=")
        method, _, setting = name.strip().rpartition(".")
        method = method or default or ""
        if not equals or not method:
            form = "METHOD.NAME=VALUE" if default is None else "NAME=VALUE or METHOD.NAME=VALUE"
            raise ValueError(f"--set {item} is not a setting; write --set {form}.")
        settings.setdefault(method, {})[setting] = parse_value(value.strip())
    return settings


def split_names(text: str | None) -> list[str]:
    """Return the names in a comma-separated list.

    >>> split_names("auto, k-means,")
    ['auto', 'k-means']
    """
    return [name.strip() for name in (text or "").split(",") if name.strip()]
