"""``cgmcr2 reproduce``: the paper's tables, with our numbers beside the paper's, and its figures."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from . import options


def reproduce(
    names: Annotated[
        list[str] | None,
        typer.Argument(help="Tables and figures by name or topic, such as table-6 or strategies; or all."),
    ] = None,
    features: Annotated[
        Path | None,
        typer.Option(
            "--features", help="The folder of features: cifar10.npz, cifar10-*.npz, or a feature store cifar10."
        ),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="The folder to make (or to go on with).")
    ] = None,
    show: Annotated[bool, typer.Option("--list", help="Say which tables and figures there are.")] = False,
    only: Annotated[
        str | None, typer.Option("--only", help="Some of the data sets, with commas, such as cifar10,cifar100.")
    ] = None,
    seeds: Annotated[
        int | None, typer.Option("--seeds", help="Runs of each cell, with seeds 0, 1, ...  [default: 3]")
    ] = None,
    protocol: Annotated[
        str,
        typer.Option(help="head: label the test rows; spectral: cluster their embedding; train; all (train and test)."),
    ] = "head",
    quick: Annotated[
        bool, typer.Option("--quick", help="At reduced size, for slow machines; the table says so.")
    ] = False,
    rows: Annotated[
        int | None, typer.Option("--rows", help="Fit at most so many rows, and judge at most so many.")
    ] = None,
    data: options.Data = None,
    download: options.Download = False,
    encoder: Annotated[
        str | None, typer.Option("--encoder", help="What embeds a data set.  [default: the table's]")
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="A setting of CgMCR² (x2: doubled), or METHOD.NAME=VALUE."),
    ] = None,
    limit: Annotated[float | None, typer.Option(help="Give up a run after so many seconds.")] = None,
    quiet: options.Quiet = False,
) -> None:
    """Run tables and draw figures of the paper on your features; what was run already is not run again."""
    from cgmcr2.experiments import reproduce as run
    from cgmcr2.experiments.facts import FactTable
    from cgmcr2.experiments.figures import SENSITIVITY, PaperFigure, draw_figure, draw_sensitivity, find, list_all
    from cgmcr2.experiments.render import to_text

    every = list_all()
    if show:
        width = max(len(each.topic) for each in every)
        for each in every:
            of = f" ({', '.join(each.datasets)})" if each.datasets else ""
            typer.echo(f"{each.name:9} {each.topic:{width}} {each.title}{of}")
        return
    chosen = every if names == ["all"] else [find(name) for name in names or []]
    if not chosen or output is None or (features is None and any(each.datasets for each in chosen)):
        raise ValueError(
            "Say which table, where its features are and where to write, as in: reproduce table-6 --features DIR "
            "-o DIR; --list shows the tables and figures."
        )
    store = features or output  # where it is not given, nothing looks into it
    given = _settings(settings or [])
    shared: dict[str, Any] = {
        "data": data,
        "download": download,
        "encoder": encoder,
        "only": [name.strip() for name in (only or "").split(",") if name.strip()],
        "quick": quick,
        "rows": rows,
        "progress": not quiet,
    }

    def do(each: Any) -> list[Path]:
        if isinstance(each, FactTable):
            typer.echo(each.text())
            return each.save(output)
        if isinstance(each, PaperFigure):
            drawn = draw_figure(each, store, output, settings=given.get("paper"), **shared)
            typer.echo("\n".join([f"{each.paper}: {each.title}", *drawn.notes]))
            return drawn.paths
        tell = None if quiet else lambda line: typer.echo(line, err=True)
        table = run(
            each, store, output, seeds=seeds, protocol=protocol, settings=given, limit=limit, tell=tell, **shared
        )
        paths = table.save(output)
        typer.echo(to_text(table))
        if each.name in SENSITIVITY:
            paths += draw_sensitivity(table, output, quick=quick, settings=given.get("paper")).paths
        return paths

    for each in chosen:
        try:
            paths = do(each)
        except (OSError, ValueError) as error:
            if len(chosen) == 1:
                raise
            typer.echo(f"{each.paper}: {each.title} is left out: {error}\n")  # the others go on
            continue
        typer.echo(f"Saved: {paths[0]}, {', '.join(path.suffix for path in paths[1:])}\n")


def _settings(items: list[str]) -> dict[str, dict[str, Any]]:
    """``NAME=VALUE`` items under "paper", ``METHOD.NAME=VALUE`` items under their method."""
    found: dict[str, dict[str, Any]] = {}
    for item in items:
        name, equals, value = item.partition("=")
        if not equals:
            raise ValueError(f"--set {item} has no value; write --set NAME=VALUE or --set METHOD.NAME=VALUE.")
        method, _, setting = name.strip().rpartition(".")
        found.setdefault(method or "paper", {})[setting] = options.parse(value.strip())
    return found
