"""The paper's tables as they are written down in ``experiments/*.toml``: what runs, and the paper's own numbers."""

from __future__ import annotations

import dataclasses
import itertools
import re
from functools import lru_cache
from importlib import resources
from typing import Any

from cgmcr2 import _toml
from cgmcr2.datasets import dataset_info
from cgmcr2.training import paper_settings, resolve

from .job import PRESETS, known_methods

COLUMNS = ("acc", "nmi", "ari")
LABELS_BY = ("head", "spectral")


@dataclasses.dataclass(frozen=True)
class Row:
    """One line of a table: a method with its settings, and what the paper reports for it.

    ``settings`` hold for all data sets and ``each[dataset]`` for one; a text such as ``"x2"`` is so many times the data
    set's own. ``paper[dataset]`` and ``std[dataset]`` are numbers in the order of the table's columns, NaN where there
    is none; ``cost`` the paper's seconds an iteration and MB. ``cited`` says why the row is not run.
    """

    label: str
    method: str = ""
    settings: dict[str, Any] = dataclasses.field(default_factory=dict)
    each: dict[str, dict[str, Any]] = dataclasses.field(default_factory=dict)
    labels_by: str = "head"
    datasets: tuple[str, ...] = ()  # where fewer than all
    paper: dict[str, list[float]] = dataclasses.field(default_factory=dict)
    std: dict[str, list[float]] = dataclasses.field(default_factory=dict)
    cost: tuple[float, ...] = ()
    cited: str = ""

    @property
    def is_ours(self) -> bool:
        """Whether it is CgMCR² itself, and not a competitor."""
        return self.method in PRESETS

    def settings_for(self, dataset: str) -> dict[str, Any]:
        """Every setting that the run is given; those of CgMCR² begin with the paper's for the data set."""
        own = paper_settings(dataset)[1] if self.method == "paper" else {}
        base = {"hidden_dim": 4096, **own} if own else {}
        return override(base, {**self.settings, **self.each.get(dataset, {})})


@dataclasses.dataclass(frozen=True)
class Experiment:
    """One table. ``timing``: the batch size at which an iteration is timed, 0 where it is not."""

    name: str
    paper: str
    title: str
    topic: str
    shows: str
    encoder: str
    datasets: tuple[str, ...]
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    note: str = ""
    timing: int = 0
    seeds: int = 3


def override(base: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """``base`` with ``changes``; a text such as "x2" multiplies what is there.

    >>> override({"gamma": 70, "lr": 0.1}, {"gamma": "x0.5", "s": 3})
    {'gamma': 35, 'lr': 0.1, 's': 3}
    """
    found = dict(base)
    for name, value in changes.items():
        if isinstance(value, str) and re.fullmatch(r"x\d+(\.\d+)?", value):
            if name not in base:
                raise ValueError(f"{name} is given as {value}, but there is no {name} to multiply; give a number.")
            product = base[name] * float(value[1:])
            value = int(product) if product.is_integer() else product
        found[name] = value
    return found


def list_experiments() -> list[Experiment]:
    """All experiments, in the paper's order.

    >>> [experiment.name for experiment in list_experiments()][:2]
    ['table-1', 'table-2']
    """
    folder = resources.files(__package__) / "definitions"
    names = [entry.name.removesuffix(".toml") for entry in folder.iterdir() if entry.name.endswith(".toml")]
    return [_shipped(name) for name in sorted(names, key=place)]


def load_experiment(name: str) -> Experiment:
    """The experiment of that name or topic.

    >>> load_experiment("Table 6").title, load_experiment("strategies").name
    ('Training strategies', 'table-6')
    """
    every = list_experiments()
    for experiment in every:
        if plain(name) in (plain(experiment.name), plain(experiment.paper), plain(experiment.topic)):
            return experiment
    raise ValueError(f"There is no experiment {name!r}; there are {', '.join(found.name for found in every)}.")


def parse_experiment(name: str, text: str) -> Experiment:
    """The experiment that a TOML text describes, checked."""
    values = _toml.loads(text)
    rows = [row for entry in values.pop("rows", []) for row in _rows(name, entry)]
    known = {field.name for field in dataclasses.fields(Experiment)} - {"name", "rows"}
    _know(name, values, known)
    missing = {"paper", "title", "topic", "shows", "encoder", "datasets", "columns"} - values.keys()
    if missing or not rows:
        raise ValueError(f"{name} has no {', '.join(sorted(missing)) or 'rows'}.")
    for field in ("datasets", "columns"):
        values[field] = tuple(values[field])
    experiment = Experiment(name=name, rows=tuple(rows), **values)
    _check(experiment)
    return experiment


def _rows(name: str, entry: dict[str, Any]) -> list[Row]:
    """A row; or one for each point of its grid, with the point's values in the label."""
    entry = dict(entry)
    grid = entry.pop("grid", {})
    _know(name, entry, {field.name for field in dataclasses.fields(Row)})
    entry |= {field: tuple(entry[field]) for field in ("datasets", "cost") if field in entry}
    found = []
    for values in itertools.product(*grid.values()):
        point = dict(zip(grid, values, strict=True))
        label = entry["label"].format(**point) if grid else entry["label"]
        found.append(Row(**{**entry, "label": label, "settings": {**entry.get("settings", {}), **point}}))
    return found


def _know(name: str, values: dict[str, Any], known: set[str]) -> None:
    for key in values:
        if key not in known:
            raise ValueError(f"{name} has a key {key!r}; there are {', '.join(sorted(known))}.")


def _check(experiment: Experiment) -> None:
    """Refuse names that are not there and settings that no run would accept."""
    name = experiment.name
    unknown = [column for column in experiment.columns if column not in COLUMNS]
    if unknown:
        raise ValueError(f"{name} has a column {unknown[0]!r}; there are {', '.join(COLUMNS)}.")
    for row in experiment.rows:
        where = f"{name}, row {row.label!r}"
        if bool(row.method) == bool(row.cited) or (row.method and row.method not in known_methods()):
            raise ValueError(f"{where} needs a method ({', '.join(known_methods())}), or cited: why it is not run.")
        if row.labels_by not in LABELS_BY:
            raise ValueError(f"{where} has labels by {row.labels_by!r}; there are {', '.join(LABELS_BY)}.")
        named = {*row.datasets, *row.each, *row.paper, *row.std}
        if not named <= set(experiment.datasets):
            raise ValueError(
                f"{where} names {sorted(named - set(experiment.datasets))[0]!r}, no data set of the table."
            )
        for dataset in [*row.paper, *row.std]:
            for numbers in (row.paper.get(dataset), row.std.get(dataset)):
                if numbers is not None and len(numbers) != len(experiment.columns):
                    raise ValueError(f"{where} has {len(numbers)} numbers for {dataset}, not one for each column.")
        for dataset in row.datasets or experiment.datasets:
            info = dataset_info(dataset)
            settings = row.settings_for(dataset)
            if row.method in PRESETS:
                resolve(row.method, info.train, info.classes, 768, settings)  # type: ignore[arg-type]


@lru_cache
def _shipped(name: str) -> Experiment:
    text = (resources.files(__package__) / "definitions" / f"{name}.toml").read_text(encoding="utf-8")
    return parse_experiment(name, text)


def place(name: str) -> tuple[bool, bool, str, int]:
    """Tables before figures, main text before supplement, by number."""
    kind, _, number = name.partition("-")
    letter = number.rstrip("0123456789")
    return kind == "figure", letter != "", letter, int(number.removeprefix(letter) or 0)


def plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())
