"""Result of a hyperparameter search and its output files. If labels were used, every output says so."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cgmcr2._files import write_json, write_text
from cgmcr2.experiments.choices import TuningScore
from cgmcr2.experiments.formats import csv_table, markdown_table
from cgmcr2.experiments.plotting import add_footnote, save_figure

SCORE_TITLES: dict[TuningScore, str] = {"stability": "stability (label-free)", "labels": "ACC (BY LABELS)"}
LABELS_USED = "Labels were used to choose these settings: the result is not unsupervised."


@dataclasses.dataclass(frozen=True)
class Trial:
    """One trial: its settings, and the mean of each measure over the seeds; None if training failed."""

    stage: str  # "gamma" (test of feasibility) or "search"
    settings: dict[str, float]
    clusters: int  # number of clusters requested
    score: float | None = None
    live: float | None = None  # number of clusters with at least 5 % of the mean cluster size
    balance: float | None = None  # normalized entropy of the cluster sizes
    stability: float | None = None
    seconds: float | None = None
    error: str = ""

    def describe(self) -> str:
        """Return the settings, such as "eps 0.5, gamma 12"."""
        return ", ".join(f"{name} {value:g}" for name, value in self.settings.items())

    def format_live(self) -> str:
        """Return live and requested clusters, such as "9/10"."""
        return "" if self.live is None else f"{self.live:g}/{self.clusters}"


@dataclasses.dataclass(frozen=True)
class SearchOutcome:
    """Trials of both stages, the smallest feasible gamma and the best settings."""

    gamma_trials: list[Trial]  # increasing gamma, up to the first feasible one
    trials: list[Trial]  # trials of the search; the first is the preset without changes
    best: Trial
    gamma: float  # smallest feasible gamma; if there is none, the gamma with the most live clusters
    feasible: bool  # whether there is a feasible gamma
    min_live: float  # fraction of live clusters from which a gamma is feasible


@dataclasses.dataclass(frozen=True)
class TuningResult(SearchOutcome):
    """Outcome of a search with its request, and the command that uses the best settings."""

    folder: Path
    by: TuningScore
    request: Mapping[str, Any]
    command: str

    def summary(self) -> list[str]:
        """Return a summary, one sentence per line."""
        if self.feasible:
            line = f"Smallest feasible gamma: {self.gamma:g} (at least {self.min_live:.0%} of the clusters are live)."
        else:
            largest = self.gamma_trials[-1].settings["gamma"]
            line = f"No gamma up to {largest:g} keeps at least {self.min_live:.0%} of the clusters live; "
            line += f"gamma {self.gamma:g} keeps the most."
        score = f"{SCORE_TITLES[self.by]}: {percent(self.best.score)}"
        lines = [line, f"Best of {len(self.trials)} trials: {self.best.describe()}; {score}."]
        preset = self.trials[0]
        if preset.score is not None and self.best != preset:
            lines.append(f"Preset without changes: {percent(preset.score)}.")
        return [*lines, *([LABELS_USED] if self.by == "labels" else []), f"To fit with these settings: {self.command}"]

    def markdown(self) -> str:
        """Return the summary and a table of all trials; trials of the search are ranked by score."""
        names = list(self.best.settings)
        ranked = sorted(self.trials, key=lambda trial: math.inf if trial.score is None else -trial.score)
        rows = [
            [
                trial.stage,
                *(f"{trial.settings[name]:g}" for name in names),
                percent(trial.score),
                trial.format_live(),
                "" if trial.seconds is None else f"{trial.seconds:.1f}",
            ]
            for trial in [*self.gamma_trials, *ranked]
        ]
        table = markdown_table(["stage", *names, SCORE_TITLES[self.by], "live clusters", "seconds"], rows)
        return "\n".join([*self.summary(), "", table]) + "\n"

    def csv(self) -> str:
        """Return one line per trial, in chronological order."""
        names = list(self.best.settings)
        measures = ("live", "balance", "stability", "seconds", "error")
        rows = [
            [
                trial.stage,
                *(trial.settings[name] for name in names),
                trial.score,
                self.by,
                *(getattr(trial, name) for name in measures),
            ]
            for trial in [*self.gamma_trials, *self.trials]
        ]
        return csv_table(["stage", *names, "score", "scored_by", *measures], rows)

    def to_dict(self) -> dict[str, Any]:
        """Return the best settings and the request as JSON-serialisable values."""
        return {
            "scored_by": self.by,
            "note": LABELS_USED if self.by == "labels" else "no labels were used",
            "settings": self.best.settings,
            "score": self.best.score,
            "feasible_gamma": self.gamma if self.feasible else None,
            "command": self.command,
            "request": dict(self.request),
        }

    def save(self) -> str | None:
        """Write the tables, ``best.json`` and the plots; return why there is no plot, or None."""
        from .plot import draw_tuning

        write_text(self.folder / "table.md", self.markdown())
        write_text(self.folder / "table.csv", self.csv())
        write_json(self.folder / "best.json", self.to_dict())
        try:
            figure = draw_tuning(self.gamma_trials, self.trials, self.gamma, SCORE_TITLES[self.by])
        except ImportError as error:
            return f"No plot: {error}"
        add_footnote(figure, LABELS_USED if self.by == "labels" else "Scored without labels.")
        save_figure(figure, self.folder / "plot")
        return None


def percent(score: float | None) -> str:
    return "failed" if score is None else f"{100 * score:.1f} %"
