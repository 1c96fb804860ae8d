"""Definitions of the paper's tables (``definitions/*.toml``): methods, settings and the paper's numbers."""

from __future__ import annotations

import dataclasses
import itertools
import re
from functools import lru_cache
from importlib import resources
from typing import Any, get_args

from cgmcr2 import _toml
from cgmcr2.datasets import dataset_info
from cgmcr2.experiments.choices import LabelSource
from cgmcr2.experiments.job import method_names
from cgmcr2.experiments.overrides import override
from cgmcr2.pretrain.estimators import CLUSTERERS
from cgmcr2.training import PRESETS, paper_settings, resolve

COLUMNS = ("acc", "nmi", "ari")
FEATURE_WIDTH = 768  # width of CLIP ViT-L/14 features, used to check settings


@dataclasses.dataclass(frozen=True)
class TableRow:
    """One row of a table: a method with its settings, and the paper's numbers.

    ``paper[dataset]`` and ``paper_std[dataset]`` have one number per column of the table, NaN if the paper has none.
    A setting such as ``"x2"`` multiplies the paper's setting for the data set.
    """

    label: str
    method: str = ""
    settings: dict[str, Any] = dataclasses.field(default_factory=dict)  # for all data sets
    dataset_settings: dict[str, dict[str, Any]] = dataclasses.field(default_factory=dict)  # for one data set
    labels_by: LabelSource = "head"
    datasets: tuple[str, ...] = ()  # empty: all data sets of the table
    paper: dict[str, list[float]] = dataclasses.field(default_factory=dict)
    paper_std: dict[str, list[float]] = dataclasses.field(default_factory=dict)
    paper_cost: tuple[float, ...] = ()  # seconds per iteration and memory in MB
    not_run: str = ""  # why the row is not run; only the paper's numbers are shown
    image_method: str = ""  # the same method from pixels, which is run instead where images are available

    @property
    def is_cgmcr2(self) -> bool:
        """Whether the method is CgMCR² and not a baseline."""
        return self.method in PRESETS

    def for_input(self, *, images: bool) -> TableRow:
        """Return the row with the method that is run, given whether images are available."""
        return dataclasses.replace(self, method=self.image_method) if images and self.image_method else self

    def settings_for(self, dataset: str) -> dict[str, Any]:
        """Return the settings for ``dataset``; those of CgMCR² are based on the paper's."""
        base = {"hidden_dim": 4096, **paper_settings(dataset)[1]} if self.method == "paper" else {}
        return override(base, {**self.settings, **self.dataset_settings.get(dataset, {})})


@dataclasses.dataclass(frozen=True)
class PaperTable:
    """Table of the paper that is reproduced by running methods."""

    name: str  # such as "table-b6"
    number: str  # as the paper writes it, such as "Table B.6"
    title: str
    topic: str  # alternative name, such as "affinity"
    description: str
    encoder: str
    datasets: tuple[str, ...]
    columns: tuple[str, ...]
    rows: tuple[TableRow, ...]
    note: str = ""
    timing_batch: int = 0  # batch size for timing an iteration; 0: no timing
    seeds: int = 3
    pretrain: str = ""  # method that trains the encoder on the images of a data set without features


def list_tables() -> list[PaperTable]:
    """Return all tables in the paper's order.

    >>> [table.name for table in list_tables()][:2]
    ['table-1', 'table-2']
    """
    names = [entry.name.removesuffix(".toml") for entry in _folder().iterdir() if entry.name.endswith(".toml")]
    return [_load_definition(name) for name in sorted(names, key=paper_order)]


def load_table(name: str) -> PaperTable:
    """Return the table with this name, number or topic.

    >>> load_table("Table 6").title, load_table("strategies").name
    ('Training strategies', 'table-6')
    """
    tables = list_tables()
    for table in tables:
        if matches(name, table.name, table.number, table.topic):
            return table
    raise ValueError(f"There is no table {name!r}; choose from {', '.join(table.name for table in tables)}.")


def matches(query: str, *names: str) -> bool:
    """Whether ``query`` equals one of ``names``, ignoring case and punctuation.

    >>> matches("Table B.6", "table-b6")
    True
    """
    return _alphanumeric(query) in map(_alphanumeric, names)


def paper_order(name: str) -> tuple[bool, bool, str, int]:
    """Sort key: tables before figures, main text before supplement, then by number."""
    kind, _, number = name.partition("-")
    letter = number.rstrip("0123456789")
    return kind == "figure", letter != "", letter, int(number.removeprefix(letter) or 0)


def parse_table(name: str, text: str) -> PaperTable:
    """Parse and check the TOML definition of a table."""
    values = _toml.loads(text)
    rows = [row for entry in values.pop("rows", []) for row in _parse_rows(name, entry)]
    _reject_unknown_keys(name, values, {field.name for field in dataclasses.fields(PaperTable)} - {"name", "rows"})
    required = {"number", "title", "topic", "description", "encoder", "datasets", "columns"}
    missing = required - values.keys()
    if missing or not rows:
        raise ValueError(f"{name} has no {', '.join(sorted(missing)) or 'rows'}.")
    for field in ("datasets", "columns"):
        values[field] = tuple(values[field])
    table = PaperTable(name=name, rows=tuple(rows), **values)
    unknown = [column for column in table.columns if column not in COLUMNS]
    if unknown:
        raise ValueError(f"{name} has a column {unknown[0]!r}; choose from {', '.join(COLUMNS)}.")
    for row in table.rows:
        _check_row(table, row)
    return table


def _parse_rows(name: str, entry: dict[str, Any]) -> list[TableRow]:
    """Return the row, or one row per point of its ``grid``, whose label is formatted with the values of the point."""
    entry = dict(entry)
    grid = entry.pop("grid", {})
    _reject_unknown_keys(name, entry, {field.name for field in dataclasses.fields(TableRow)})
    entry |= {field: tuple(entry[field]) for field in ("datasets", "paper_cost") if field in entry}
    rows = []
    for values in itertools.product(*grid.values()):
        point = dict(zip(grid, values, strict=True))
        label = entry["label"].format(**point) if grid else entry["label"]
        rows.append(TableRow(**{**entry, "label": label, "settings": {**entry.get("settings", {}), **point}}))
    return rows


def _reject_unknown_keys(name: str, values: dict[str, Any], keys: set[str]) -> None:
    for key in values:
        if key not in keys:
            raise ValueError(f"{name} has an unknown key {key!r}; choose from {', '.join(sorted(keys))}.")


def _check_row(table: PaperTable, row: TableRow) -> None:
    """Reject unknown names, missing numbers and invalid settings."""
    context = f"{table.name}, row {row.label!r}"
    if bool(row.method) == bool(row.not_run) or (row.method and row.method not in method_names()):
        raise ValueError(
            f"{context} needs either a method ({', '.join(method_names())}) or not_run, the reason why it is not run."
        )
    if row.image_method and row.image_method not in CLUSTERERS:
        raise ValueError(f"{context} has image_method {row.image_method!r}; choose from {', '.join(CLUSTERERS)}.")
    if row.labels_by not in get_args(LabelSource):
        raise ValueError(f"{context} has labels_by {row.labels_by!r}; choose from {', '.join(get_args(LabelSource))}.")
    unknown = {*row.datasets, *row.dataset_settings, *row.paper, *row.paper_std} - set(table.datasets)
    if unknown:
        raise ValueError(f"{context} names {sorted(unknown)[0]!r}, which is not a data set of the table.")
    for dataset, numbers in [*row.paper.items(), *row.paper_std.items()]:
        if len(numbers) != len(table.columns):
            raise ValueError(f"{context} has {len(numbers)} numbers for {dataset}; one per column is needed.")
    for dataset in row.datasets or table.datasets:
        info = dataset_info(dataset)
        settings = row.settings_for(dataset)
        if row.method in PRESETS:
            resolve(row.method, info.train, info.classes, FEATURE_WIDTH, settings)


@lru_cache
def _load_definition(name: str) -> PaperTable:
    return parse_table(name, (_folder() / f"{name}.toml").read_text(encoding="utf-8"))


def _folder() -> Any:
    return resources.files("cgmcr2.experiments") / "definitions"


def _alphanumeric(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())
