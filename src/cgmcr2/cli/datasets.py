"""``cgmcr2 datasets``: the data sets that have a name here."""

from __future__ import annotations

from typing import Annotated

import typer


def datasets(
    name: Annotated[str | None, typer.Argument(help="One of them; all where none is named.")] = None,
) -> None:
    """List the paper's data sets: their size, licence, citation, and where to get them; nothing is downloaded."""
    from cgmcr2.datasets import dataset_info, list_datasets

    for info in list_datasets() if name is None else [dataset_info(name)]:
        images = f"{info.train:,} + {info.test:,}" if info.test else f"{info.train:,}"
        typer.echo(f"{info.name}: {info.title}, {info.classes:,} classes, {images} images")
        typer.echo(f"  licence  {info.licence}")
        typer.echo(f"  cite     {info.citation}")
        how = "--download fetches it" if info.downloads else info.obtain
        typer.echo(f"  get      {info.homepage} ({how})")
    if name is None:
        typer.echo(
            "\nUse one by its name: cgmcr2 embed NAME --data DIR -o STORE; likewise cluster, compare, reproduce."
        )
        typer.echo(
            "Images: training + test, or all where the paper uses the whole. Licences are as the authors state them."
        )
