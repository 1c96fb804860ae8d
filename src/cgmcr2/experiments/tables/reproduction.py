"""Reproduce a table of the paper: run every row on every available data set and collect the scores."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

from cgmcr2._files import write_text
from cgmcr2.experiments.choices import LabelSource, TableProtocol
from cgmcr2.experiments.dataset_features import DatasetFeatures, FeatureLookup, select_datasets
from cgmcr2.experiments.from_images import Pretraining, label_array, stored_name
from cgmcr2.experiments.job import (
    NO_TEXT_EMBEDDINGS,
    Job,
    JobResult,
    complete_settings,
    method_names,
    text_embeddings,
)
from cgmcr2.experiments.overrides import (
    QUICK_BASELINE_SETTINGS,
    QUICK_IMAGE_SETTINGS,
    QUICK_ROWS,
    QUICK_SETTINGS,
    QUICK_STAGES,
    override,
    quick_settings,
)
from cgmcr2.experiments.runner import run_missing
from cgmcr2.pretrain.estimators import CLUSTERERS
from cgmcr2.pretrain.registry import MethodName, resolve

from .cells import COST, TableCell, cost_cells, score_cells
from .definition import PaperTable, TableRow

IdentifiedJob = tuple[Job, dict[str, Any]]  # a job with its complete settings
JobsByCell = dict[tuple[str, str], list[IdentifiedJob]]  # by row label and data set


@dataclasses.dataclass(frozen=True)
class TableResult:
    """Reproduced table; ``cells`` are ordered by row, data set and column."""

    table: PaperTable
    datasets: list[str]  # data sets with features
    cells: list[TableCell]
    notes: list[str]

    def save(self, folder: Path) -> list[Path]:
        """Write the table as ``NAME.txt``, ``.md``, ``.tex`` and ``.csv``."""
        from .rendering import RENDERERS

        paths = []
        for suffix, render in RENDERERS.items():
            paths.append(folder / f"{self.table.name}.{suffix}")
            write_text(paths[-1], render(self))
        return paths

    def to_dict(self) -> dict[str, Any]:
        """Return the cells and notes as JSON-serialisable values; missing numbers are None."""
        cells = [{**dataclasses.asdict(cell), "difference": cell.difference} for cell in self.cells]
        plain = [{name: None if value != value else value for name, value in cell.items()} for cell in cells]
        return {
            "name": self.table.name,
            "number": self.table.number,
            "title": self.table.title,
            "cells": plain,
            "notes": self.notes,
        }


def reproduce_table(
    table: PaperTable,
    features: str | os.PathLike[str],
    folder: str | os.PathLike[str],
    *,
    data: str | os.PathLike[str] | None = None,
    download: bool = False,
    encoder: str | None = None,
    only: Sequence[str] = (),
    seeds: int | None = None,
    protocol: TableProtocol = "head",
    quick: bool = False,
    rows: int | None = None,
    settings: Mapping[str, Mapping[str, Any]] | None = None,
    limit: float | None = None,
    in_process: bool = False,
    progress: bool = False,
) -> TableResult:
    """Reproduce ``table`` on the available features and save the results in ``folder``.

    Tables in one folder share their runs. Finished runs are not repeated. Data sets without features are left out.

    Parameters
    ----------
    table : PaperTable
        Table to reproduce; see ``load_table``.
    features : path
        Folder of feature files or feature stores, named after the data sets.
    folder : path
        Output folder.
    data : path, optional
        Folder of the data sets' official files. Missing features are extracted from them.
    download : bool
        Download missing official files.
    encoder : str, optional
        Use only features of this encoder; default: any.
    only : sequence of str
        Data sets to run; default: all of the table.
    seeds : int, optional
        Runs per cell, with seeds 0, 1, ...; default: the table's.
    protocol : {"head", "spectral", "train", "all"}
        "head" fits the train split and labels the test split with the cluster head; "spectral" clusters the embedding
        of the test split; "train" fits and labels the train split; "all" fits and labels both together.
    quick : bool
        Run at reduced size: ``QUICK_SETTINGS`` and at most ``QUICK_ROWS`` rows.
    rows : int, optional
        Maximum number of rows to fit, and to score.
    settings : mapping of str to mapping
        Settings by method, which replace the table's; those of CgMCR² are under "paper".
    limit : float, optional
        Time limit of a run in seconds.
    in_process : bool
        Run in this process instead of one process per run; see ``run_missing``.
    progress : bool
        Show a progress bar.

    Returns
    -------
    result : TableResult
    """
    if protocol not in get_args(TableProtocol):
        raise ValueError(f"There is no protocol {protocol!r}; choose from {', '.join(get_args(TableProtocol))}.")
    n_seeds = table.seeds if seeds is None else seeds
    if n_seeds < 1:
        raise ValueError(f"The number of seeds is {n_seeds}; give at least 1.")
    if rows is not None and rows < 1:
        raise ValueError(f"The number of rows is {rows}; give at least 1.")
    folder = Path(folder)
    check_output_folder(folder)
    method_settings = settings or {}
    for method in method_settings:
        if method not in (*method_names(), *get_args(MethodName)):
            raise ValueError(f"There is no method named {method!r}; choose from {', '.join(method_names())}.")
    max_rows = rows or (QUICK_ROWS if quick else 0)
    pretraining = None
    if table.pretrain:
        overrides = {**(QUICK_IMAGE_SETTINGS if quick else {}), **method_settings.get(table.pretrain, {})}
        resolve(table.pretrain, overrides)  # check the settings before images are read
        encoders = folder / "encoders"
        pretraining = Pretraining(
            table.pretrain, Path(features), encoders, overrides, max_rows, data, download, progress
        )
    lookup = FeatureLookup(Path(features), data, download, encoder, progress, pretraining)
    available, missing = lookup.collect(select_datasets(table.name, table.datasets, only), table.encoder)
    if not available:
        raise FileNotFoundError(f"{' '.join(missing)} There is nothing to run.")

    run = _TableRun(table, folder, available, n_seeds, protocol, quick, max_rows, method_settings)
    jobs = run.jobs()
    unique = {job.key: (job, complete) for cell_jobs in jobs.values() for job, complete in cell_jobs}
    by_seed = sorted(unique.values(), key=lambda item: item[0].seed)  # finish one seed of all cells before the next
    folder.mkdir(parents=True, exist_ok=True)
    results = run_missing(by_seed, folder, limit=limit, in_process=in_process, progress=progress)
    by_cell = {cell: [results[job.key] for job, _ in cell_jobs] for cell, cell_jobs in jobs.items()}
    notes = [*run.notes(by_cell), *([table.note] if table.note else []), *missing]
    return TableResult(table, list(available), run.cells(by_cell), notes)


@dataclasses.dataclass(frozen=True)
class _TableRun:
    """Jobs of a table, and cells from their results."""

    table: PaperTable
    folder: Path
    features: dict[str, DatasetFeatures]
    seeds: int
    protocol: TableProtocol
    quick: bool
    max_rows: int
    settings: Mapping[str, Mapping[str, Any]]

    def jobs(self) -> JobsByCell:
        """Return the jobs of each row on each data set; the timing job of a row is under ``COST``."""
        jobs: JobsByCell = {}
        for row in self.table.rows:
            for name, features in self.features.items():
                runs = not self._reason_not_run(row, features) and name in (row.datasets or self.table.datasets)
                jobs[row.label, name] = [self._job(row, features, seed) for seed in range(self.seeds)] if runs else []
            if self.table.timing_batch and row.is_cgmcr2:
                first = next(iter(self.features.values()))
                jobs[row.label, COST] = [self._job(row, first, 0, self.table.timing_batch)]
        return jobs

    def cells(self, results: Mapping[tuple[str, str], list[JobResult]]) -> list[TableCell]:
        cells = []
        for row in self.table.rows:
            for name, features in self.features.items():
                reason = self._reason_not_run(row, features)
                cells += score_cells(self.table, row, name, results[row.label, name], self._labels_by(row), reason)
            if self.table.timing_batch:
                cells += cost_cells(row, results.get((row.label, COST), []))
        return cells

    def notes(self, results: Mapping[tuple[str, str], list[JobResult]]) -> list[str]:
        """Return notes on the features, protocols, seeds and deviations from the paper."""
        protocols = {
            _describe_protocol(result, self._labels_by(row))
            for row in self.table.rows
            for name in self.features
            for result in results[row.label, name]
            if "error" not in result
        }
        encoders = sorted(f"{features.title}: {features.encoder}" for features in self.features.values())
        notes = [f"Features: {'; '.join(encoders)}. The paper's: {self.table.encoder}."]
        notes += [f"Protocol: {protocol}." for protocol in sorted(protocols)]
        notes.append(f"Ours: mean ± std over {self.seeds} seeds." if self.seeds > 1 else "Ours: one seed.")
        if self.quick:
            changes = ", ".join(f"{name} {value}" for name, value in QUICK_SETTINGS.items())
            baselines = ", ".join(f"{name} {value}" for name, value in QUICK_BASELINE_SETTINGS.items())
            notes.append(f"Reduced size (quick): {changes}; baselines: {baselines}.")
            if self.table.pretrain:
                changes = ", ".join(f"{name} {value}" for name, value in QUICK_IMAGE_SETTINGS.items())
                stages = ", ".join(f"{name} {value}" for name, value in QUICK_STAGES.items())
                notes.append(f"Reduced size (quick) of encoders and of methods on images: {changes}; stages: {stages}.")
        if self.max_rows:
            notes.append(f"Reduced size: at most {self.max_rows:,} rows fitted, and at most {self.max_rows:,} scored.")
        if self.settings:
            notes.append(f"Settings that differ from the table's: {json.dumps(self.settings)}.")
        return notes

    def _labels_by(self, row: TableRow) -> LabelSource:
        return "spectral" if row.is_cgmcr2 and "spectral" in (self.protocol, row.labels_by) else "head"

    def _reason_not_run(self, row: TableRow, features: DatasetFeatures) -> str:
        """Return the reason why a row is not run; empty if it is run."""
        row = row.for_input(images=features.images is not None)
        settings = {**row.settings, **self.settings.get(row.method, {})}
        if row.method == "tac" and "text" not in settings and text_embeddings(str(features.path)) is None:
            return f"left out: {NO_TEXT_EMBEDDINGS}"
        if row.method in CLUSTERERS and features.images is None:
            return (
                f"left out: needs the images, {stored_name(features.dataset)}-images.npz beside the features or --data"
            )
        return row.not_run

    def _job(self, row: TableRow, features: DatasetFeatures, seed: int, timing_batch: int = 0) -> IdentifiedJob:
        row = row.for_input(images=features.images is not None)
        settings = row.settings_for(features.dataset)
        settings = quick_settings(row.method, settings) if self.quick else settings
        settings = override(settings, self.settings.get(row.method, {}))
        path, labels = features.path, features.labels
        if row.method in CLUSTERERS and features.images:
            path, labels = features.images, label_array(features.dataset)
        options: dict[str, Any] = {
            "n_clusters": features.classes,
            "labels": labels,
            "part": self.protocol if self.protocol in ("train", "all") else "test",
            "max_rows": self.max_rows,
            # Rows labelled by the head and by spectral clustering share one training run.
            "spectral": row.is_cgmcr2 and any(self._labels_by(other) == "spectral" for other in self.table.rows),
            "timing_batch": timing_batch,
        }
        identity = [path.name, features.fit_rows, features.width, options, settings]
        digest = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:8]
        job = Job(
            str(path.resolve()),
            row.method,
            seed,
            settings=settings,
            output=str(self.folder.resolve()),
            name=f"{features.dataset}-{row.method}-{digest}-{seed}",
            title=f"{features.title}, {row.label}{', timing' if timing_batch else ''}",
            **options,
        )
        return job, complete_settings(job, features.fit_rows, features.width)


def check_output_folder(folder: Path) -> None:
    """Reject a folder with files other than tables, figures and their runs."""
    pattern = re.compile(r"(table|figure)-\w+\.\w+|runs\.jsonl|labels|observed|encoders|\..*")
    others = [path.name for path in folder.iterdir() if not pattern.fullmatch(path.name)] if folder.exists() else []
    if others:
        raise ValueError(f"{folder} holds other files than tables and figures ({others[0]}); choose a new folder.")


def _describe_protocol(result: JobResult, labels_by: LabelSource) -> str:
    return str(result["protocol"]) + (" by spectral clustering of its embedding" if labels_by == "spectral" else "")
