"""``cgmcr2 reproduce``: reproduce the paper's tables and figures."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cgmcr2.experiments.choices import TableProtocol

from . import options
from .choices import metavar
from .compare import parse_method_settings, split_names
from .output import print_json

if TYPE_CHECKING:
    from cgmcr2.experiments.catalog import PaperItem

EPILOG = """\b
Examples:
  cgmcr2 reproduce --list
  cgmcr2 reproduce table-6 --features DIR -o tables
  cgmcr2 reproduce strategies --features DIR --only cifar10 --quick -o tables
  cgmcr2 reproduce figure-2 figure-3 --features DIR -o figures
  cgmcr2 reproduce table-3 --data DIR --features DIR -o tables
"""


def reproduce(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME", help="Tables and figures by name or topic: table-6, strategies; or all."),
    ] = None,
    features: Annotated[
        Path | None,
        typer.Option(
            "--features",
            metavar="DIR",
            help="Folder of feature files (cifar10.npz, cifar10-ENCODER.npz) or feature stores (cifar10).",
        ),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="DIR", help="Output folder; resumes if it exists.")
    ] = None,
    show_list: Annotated[bool, typer.Option("--list", help="List the tables and figures.")] = False,
    only: Annotated[
        str | None, typer.Option("--only", metavar="NAMES", help="Data sets separated by commas: cifar10,cifar100.")
    ] = None,
    seeds: Annotated[
        int | None, typer.Option("--seeds", metavar="N", help="Runs per cell, with seeds 0, 1, ...  [default: 3]")
    ] = None,
    protocol: Annotated[
        TableProtocol,
        typer.Option(
            "--protocol",
            metavar=metavar(TableProtocol),
            help="head: label the test split; spectral: cluster its embedding; train, all: fit and label these rows.",
        ),
    ] = "head",
    quick: Annotated[bool, typer.Option("--quick", help="Run at reduced size; the output says so.")] = False,
    rows: Annotated[
        int | None, typer.Option("--rows", metavar="N", help="Maximum number of rows to fit, and to score.")
    ] = None,
    data: options.Data = None,
    download: options.Download = False,
    encoder: Annotated[
        str | None, typer.Option("--encoder", metavar="NAME", help="Encoder of the features.  [default: the table's]")
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="Setting of CgMCR² (x2 doubles it), or METHOD.NAME=VALUE for a baseline; repeatable.",
        ),
    ] = None,
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
    """Reproduce tables and figures of the paper.

    Data sets without features are left out. Finished runs are not repeated.
    """
    from cgmcr2.experiments.catalog import find_item, list_items

    items = list_items()
    if show_list:
        _print_list(items, as_json)
        return
    selected = items if names == ["all"] else [find_item(name) for name in names or []]
    if not selected or output is None or (features is None and any(item.datasets for item in selected)):
        raise ValueError(
            "A table or figure, --features and --output are needed, as in: cgmcr2 reproduce table-6 --features DIR "
            "-o DIR; --list shows the tables and figures."
        )
    shared = {
        "data": data,
        "download": download,
        "encoder": encoder,
        "only": split_names(only),
        "quick": quick,
        "rows": rows,
        "progress": not quiet,
    }
    table_options = {"seeds": seeds, "protocol": protocol, "limit": limit, "in_process": in_process}
    method_settings = parse_method_settings(settings or [], default="paper")
    # Items without data sets do not use the folder of features.
    reproduction = _Reproduction(features or output, output, shared, table_options, method_settings)
    results = [_reproduce_item(item, reproduction, alone=len(selected) == 1, as_json=as_json) for item in selected]
    if as_json:
        print_json({"results": results})


def _reproduce_item(item: PaperItem, reproduction: _Reproduction, *, alone: bool, as_json: bool) -> dict[str, Any]:
    """Reproduce and print one table or figure; unless it is ``alone``, errors are reported without raising."""
    try:
        text, paths, values = reproduction.run(item)
    except (OSError, ValueError) as error:
        if alone:
            raise
        text, paths, values = f"{item.number} is left out: {error}\n", [], {"name": item.name, "error": str(error)}
    if not as_json:
        typer.echo(text)
        if paths:
            typer.echo(f"Saved: {paths[0]}, {', '.join(path.suffix for path in paths[1:])}\n")
    return {**values, "files": [str(path) for path in paths]}


@dataclasses.dataclass(frozen=True)
class _Reproduction:
    """Options of the command, which apply to every table and figure."""

    features: Path
    output: Path
    shared: dict[str, Any]  # options of both tables and figures
    table_options: dict[str, Any]
    settings: dict[str, dict[str, Any]]  # by method

    def run(self, item: PaperItem) -> tuple[str, list[Path], dict[str, Any]]:
        """Reproduce ``item``; return the text for the terminal, the files and the values for JSON."""
        from cgmcr2.experiments.figures import PaperFigure, draw_figure
        from cgmcr2.experiments.figures.sensitivity import SETTINGS, save_sensitivity
        from cgmcr2.experiments.tables import reproduce_table
        from cgmcr2.experiments.tables.rendering import to_text
        from cgmcr2.experiments.tables.specifications import SpecificationTable

        paper_settings = self.settings.get("paper")
        if isinstance(item, SpecificationTable):
            return item.text(), item.save(self.output), item.to_dict()
        if isinstance(item, PaperFigure):
            figure = draw_figure(item, self.features, self.output, settings=paper_settings, **self.shared)
            text = "\n".join([f"{item.number}: {item.title}", *figure.notes])
            values = {"name": item.name, "number": item.number, "title": item.title, "notes": figure.notes}
            return text, figure.paths, values
        result = reproduce_table(
            item, self.features, self.output, settings=self.settings, **self.table_options, **self.shared
        )
        paths = result.save(self.output)
        if item.name in SETTINGS:
            paths += save_sensitivity(result, self.output, quick=self.shared["quick"], settings=paper_settings)
        return to_text(result), paths, result.to_dict()


def _print_list(items: list[PaperItem], as_json: bool) -> None:
    if as_json:
        fields = ("name", "number", "topic", "title", "datasets")
        print_json({"items": [{field: getattr(item, field) for field in fields} for item in items]})
        return
    width = max(len(item.topic) for item in items)
    for item in items:
        datasets = f" ({', '.join(item.datasets)})" if item.datasets else ""
        typer.echo(f"{item.name:9} {item.topic:{width}} {item.title}{datasets}")
