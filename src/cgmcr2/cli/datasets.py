"""``cgmcr2 datasets``: the paper's data sets."""

from __future__ import annotations

import dataclasses
from typing import Annotated

import typer

from . import options
from .output import print_json

EPILOG = """\b
Examples:
  cgmcr2 datasets
  cgmcr2 datasets cifar10 --json
"""


def datasets(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="Show only this data set.")] = None,
    as_json: options.Json = False,
) -> None:
    """List the paper's data sets: size, licence, citation and source.

    Nothing is downloaded.
    """
    from cgmcr2.datasets import dataset_info, list_datasets

    infos = list_datasets() if name is None else [dataset_info(name)]
    if as_json:
        print_json([dataclasses.asdict(info) for info in infos])
        return
    for info in infos:
        images = f"{info.train:,} + {info.test:,}" if info.test else f"{info.train:,}"
        typer.echo(f"{info.name}: {info.title}, {info.classes:,} classes, {images} images")
        typer.echo(f"  licence   {info.licence}")
        typer.echo(f"  citation  {info.citation}")
        obtain = "downloaded by --download" if info.downloads else info.obtain
        typer.echo(f"  source    {info.homepage} ({obtain})")
    if name is None:
        typer.echo("\nImages: training + test, or all if the paper uses no split. Licences as stated by the authors.")
        typer.echo("Usage: cgmcr2 embed NAME --data DIR -o STORE; also with cluster, compare and reproduce.")
