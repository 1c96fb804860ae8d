"""Runs a table of the paper: every row on every data set whose features are there, and what they yield as one table."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from cgmcr2._files import write_text
from cgmcr2.datasets import dataset_info

from .compare import NO_TEXT
from .experiment import Experiment, Row, override
from .features import Features, provide_features
from .job import Job, complete_settings, text_embeddings
from .runner import Run, run_missing

PROTOCOLS = ("head", "spectral", "train", "all")
# A table at about a hundredth of the cost: narrower, with a learning rate that grows as the width falls, fewer epochs
# and at most so many rows.
QUICK: dict[str, Any] = {"hidden_dim": "x0.125", "lr": "x8", "warmup_epochs": "x0.4", "finetune_epochs": "x0.4"}
QUICK_ROWS = 10_000


@dataclasses.dataclass(frozen=True)
class Value:
    """One number of a table: ours over the seeds that finished, and the paper's; NaN where there is none."""

    row: str
    dataset: str  # "" for what an iteration costs
    column: str
    mean: float
    std: float
    seeds: int
    paper: float
    paper_std: float
    note: str = ""  # why there is no number, or not of all seeds

    @property
    def difference(self) -> float:
        return self.mean - self.paper


@dataclasses.dataclass(frozen=True)
class Reproduction:
    """A table of the paper with our numbers (scores in percent), and what to know about it."""

    experiment: Experiment
    datasets: list[str]  # those that were run
    values: list[Value]  # by row, then data set, then column
    notes: list[str]

    def save(self, folder: Path) -> list[Path]:
        """Write the table as ``NAME.txt``, ``.md``, ``.tex`` and ``.csv``."""
        from .render import FORMATS

        paths = []
        for suffix, render in FORMATS.items():
            paths.append(folder / f"{self.experiment.name}.{suffix}")
            write_text(paths[-1], render(self))
        return paths


def reproduce(
    experiment: Experiment,
    features: str | os.PathLike[str],
    folder: str | os.PathLike[str],
    *,
    data: str | os.PathLike[str] | None = None,
    download: bool = False,
    encoder: str | None = None,
    only: Sequence[str] = (),
    seeds: int | None = None,
    protocol: str = "head",
    quick: bool = False,
    rows: int | None = None,
    settings: Mapping[str, Mapping[str, Any]] | None = None,
    limit: float | None = None,
    progress: bool = False,
    tell: Callable[[str], None] | None = None,
) -> Reproduction:
    """Run ``experiment`` on what the folder ``features`` holds of its data sets; runs that ``folder`` has are not done
    again, whichever table they were done for.

    Where that folder lacks a data set whose files are in ``data`` (``download``: fetch those that are not), they are
    embedded into it by ``encoder``, the table's own if none is named; a data set without either is left out.
    ``only``: some of its data sets. ``protocol``: "head" fits the train split and labels the test split with the
    cluster head; "spectral" clusters the embedding of the test split; "train" fits and labels the train split, "all"
    both together. ``quick``: at reduced size, see ``QUICK``. ``rows``: at most so many rows fitted, and judged.
    ``settings[method]``: overrides the table's, CgMCR²'s under "paper".
    """
    if protocol not in PROTOCOLS:
        raise ValueError(f"There is no protocol {protocol!r}; there are {', '.join(PROTOCOLS)}.")
    count = experiment.seeds if seeds is None else seeds
    if count < 1:
        raise ValueError(f"The number of seeds is {count}; give at least 1.")
    store, folder = Path(features), Path(folder)
    if not store.is_dir() and data is None:
        raise FileNotFoundError(f"There is no folder {store}; give the folder that holds the features.")
    check_folder(folder)
    chosen = choose(experiment.name, experiment.datasets, only)
    there: dict[str, Features] = {}
    notes = []
    for name in chosen:
        try:
            there[name] = provide_features(
                name, store, experiment.encoder, data=data, download=download, given=encoder, progress=progress
            )
        except (OSError, ValueError, ImportError) as error:
            notes.append(f"{dataset_info(name).title} is left out: {error}")
    if not there:
        raise FileNotFoundError(f"{' '.join(notes)} So there is nothing to run.")

    jobs: dict[tuple[str, str], list[Work]] = {}  # by row and data set; of no data set: what an iteration costs
    plan = _Plan(experiment, folder, count, protocol, quick, rows or (QUICK_ROWS if quick else 0), settings or {})
    for row in experiment.rows:
        jobs |= {(row.label, name): plan.jobs(row, own) for name, own in there.items()}
        if experiment.timing and row.is_ours:
            jobs[row.label, ""] = [plan.job(row, next(iter(there.values())), 0, timing=experiment.timing)]
    every = {job.stem: (job, complete) for works in jobs.values() for job, complete in works}
    in_order = sorted(every.values(), key=lambda work: work[0].seed)  # a whole table of one seed first
    folder.mkdir(parents=True, exist_ok=True)
    runs = run_missing(in_order, folder, limit=limit, progress=progress, tell=tell)
    done = {place: [runs[job.stem] for job, _ in works] for place, works in jobs.items()}

    values = []
    for row in experiment.rows:
        for name, own in there.items():
            values += _scores(experiment, row, name, done[row.label, name], plan.by(row), plan.why_not(row, own))
        if experiment.timing:
            values += _costs(row, done.get((row.label, ""), []))
    protocols = {
        _in_words(run, plan.by(row)) for row in experiment.rows for name in there for run in done[row.label, name]
    }
    origins = {f"{dataset_info(name).title}: {own.encoder}" for name, own in there.items()}
    facts = [
        f"Features: {'; '.join(sorted(origins))}. The paper's: {experiment.encoder}.",
        *(f"Protocol: {words}." for words in sorted(protocols - {""})),
        f"Ours is the mean ± std over {count} seeds." if count > 1 else "Ours is of one seed.",
    ]
    if quick:
        facts.append(f"Reduced size (--quick): {', '.join(f'{name} {value}' for name, value in QUICK.items())}.")
    if plan.rows:
        facts.append(f"Reduced size: at most {plan.rows:,} rows are fitted, and at most as many judged.")
    if settings:
        facts.append(f"Other settings than the table's: {json.dumps(settings)}.")
    return Reproduction(
        experiment, list(there), values, [*facts, *([experiment.note] if experiment.note else []), *notes]
    )


Work = tuple[Job, dict[str, Any]]  # a job with its complete settings


@dataclasses.dataclass(frozen=True)
class _Plan:
    """What was asked for, and the jobs that follow from it."""

    experiment: Experiment
    folder: Path
    seeds: int
    protocol: str
    quick: bool
    rows: int
    settings: Mapping[str, Mapping[str, Any]]

    def by(self, row: Row) -> str:
        """What labels a row: "head" or "spectral"; a competitor has but one way."""
        return "spectral" if row.is_ours and "spectral" in (self.protocol, row.labels_by) else "head"

    def why_not(self, row: Row, own: Features) -> str:
        """Why a row is not run; empty where it is."""
        given = {**row.settings, **self.settings.get(row.method, {})}
        if row.method == "tac" and "text" not in given and text_embeddings(str(own.path)) is None:
            return f"left out: {NO_TEXT}"
        return row.cited

    def jobs(self, row: Row, own: Features) -> list[Work]:
        if self.why_not(row, own) or own.dataset not in (row.datasets or self.experiment.datasets):
            return []
        return [self.job(row, own, seed) for seed in range(self.seeds)]

    def job(self, row: Row, own: Features, seed: int, timing: int = 0) -> Work:
        settings = row.settings_for(own.dataset)
        if self.quick and row.is_ours:
            settings = override(settings, QUICK)
        settings = override(settings, dict(self.settings.get(row.method, {})))
        facts: dict[str, Any] = {
            "n_clusters": own.classes,
            "labels": own.labels,
            "part": self.protocol if self.protocol in ("train", "all") else "test",
            "rows": self.rows,
            "spectral": row.is_ours and any(self.by(other) == "spectral" for other in self.experiment.rows),
            "timing": timing,
        }
        job = Job(
            str(own.path.resolve()), row.method, seed, settings=settings, output=str(self.folder.resolve()), **facts
        )
        complete = complete_settings(job, own.rows, own.width)
        same = json.dumps([own.path.name, own.rows, own.width, facts, settings], sort_keys=True)
        digest = hashlib.sha256(same.encode()).hexdigest()[:8]
        label = f"{dataset_info(own.dataset).title}, {row.label}{', an iteration' if timing else ''}"
        name = f"{own.dataset}-{row.method}-{digest}-{seed}"
        return dataclasses.replace(job, name=name, label=label), complete


def choose(name: str, datasets: Sequence[str], only: Sequence[str]) -> list[str]:
    """Those of the data sets of table or figure ``name`` that were asked for, in its order."""
    wanted = {dataset_info(each).name for each in only} or set(datasets)
    strange = wanted - set(datasets)
    if strange:
        raise ValueError(f"{name} has no data set {sorted(strange)[0]}; it has {', '.join(datasets) or 'none'}.")
    return [each for each in datasets if each in wanted]


def check_folder(folder: Path) -> None:
    """Refuse a folder that holds something else than tables and figures."""
    ours = re.compile(r"(table|figure)-\w+\.\w+|runs\.jsonl|labels|observed|\..*")
    strange = [path.name for path in folder.iterdir() if not ours.fullmatch(path.name)] if folder.exists() else []
    if strange:
        raise ValueError(f"{folder} holds other things than tables and figures ({strange[0]}); choose a new folder.")


def _scores(experiment: Experiment, row: Row, dataset: str, runs: list[Run], by: str, why_not: str) -> list[Value]:
    failed = [f"seed {run['seed']} failed: {run['error']}" for run in runs if "error" in run]
    good = [run["spectral"] if by == "spectral" else run for run in runs if "error" not in run]
    found = []
    for place, column in enumerate(experiment.columns):
        ours = [100 * run[column] for run in good]
        paper, std = (numbers.get(dataset, [])[place : place + 1] or [math.nan] for numbers in (row.paper, row.std))
        found.append(_value(row.label, dataset, column, ours, paper[0], std[0], why_not or "; ".join(failed)))
    return found


def _costs(row: Row, runs: list[Run]) -> list[Value]:
    note = "; ".join(f"failed: {run['error']}" for run in runs if "error" in run)
    found = []
    for place, column in enumerate(("seconds_per_iteration", "memory_mb")):
        ours = [run[column] for run in runs if run.get(column) is not None]
        paper = row.cost[place] if row.cost else math.nan
        found.append(_value(row.label, "", column, ours, paper, math.nan, note))
    return found


def _value(row: str, dataset: str, column: str, ours: list[float], paper: float, paper_std: float, note: str) -> Value:
    mean, std = (float(np.mean(ours)), float(np.std(ours))) if ours else (math.nan, math.nan)
    return Value(row, dataset, column, mean, std, len(ours), paper, paper_std, note)


def _in_words(run: Run, by: str) -> str:
    if "error" in run:
        return ""
    return str(run["protocol"]) + (" by spectral clustering of its embedding" if by == "spectral" else "")
