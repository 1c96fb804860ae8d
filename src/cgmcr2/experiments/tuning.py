"""What a search for settings yields: the answer in words, the table, the plot; each says where labels were used."""

from __future__ import annotations

import csv
import dataclasses
import io
import math
from pathlib import Path
from typing import Any

from cgmcr2._files import write_json, write_text

SCORES = {"agreement": "agreement (label-free)", "labels": "ACC (BY LABELS)"}
MARK = "Labels were used to choose these settings: the result is not unsupervised."
LIVE = 0.75  # of the clusters, at a gamma that is feasible

Run = dict[str, Any]


@dataclasses.dataclass
class Tuning:
    """What a search yields: the runs of the ladder and of the search, the feasible gamma, the best settings."""

    folder: Path
    by: str
    names: tuple[str, ...]  # the settings searched
    ladder: list[Run]
    trials: list[Run]  # one a trial, the mean over its seeds
    gamma: float
    feasible: bool  # False where no gamma of the ladder was
    best: Run
    command: str

    def lines(self) -> list[str]:
        """The answer in words."""
        if self.feasible:
            found = f"Smallest feasible gamma: {self.gamma:g} (at least {LIVE:.0%} of the clusters are live)."
        else:
            most = self.ladder[-1]["gamma"]
            found = f"No gamma up to {most:g} keeps {LIVE:.0%} of the clusters live; the best is {self.gamma:g}."
        values = ", ".join(f"{name} {self.best[name]:g}" for name in self.names)
        lines = [
            found,
            f"Best of {len(self.trials)} trials: {values}; {SCORES[self.by]}: {percent(self.best['score'])}.",
        ]
        first = self.trials[0]
        if first["score"] is not None and self.best is not first:
            lines.append(f"The preset as it is: {percent(first['score'])}.")
        return [*lines, *([MARK] if self.by == "labels" else []), f"Run it: {self.command}"]

    def markdown(self) -> str:
        heads = ["stage", *self.names, SCORES[self.by], "live clusters", "seconds"]
        rows = [
            [
                run["stage"],
                *(f"{run[name]:g}" for name in self.names),
                percent(run["score"]),
                live(run),
                f"{run['seconds']:.1f}",
            ]
            for run in [*self.ladder, *sorted(self.trials, key=rank)]
        ]
        table = [f"| {' | '.join(cells)} |" for cells in [heads, ["---"] * len(heads), *rows]]
        return "\n".join([*self.lines(), "", *table]) + "\n"

    def save(self) -> str | None:
        """Write ``table.md``, ``table.csv``, ``best.json``, ``plot.png`` and ``plot.pdf``; why there is no plot."""
        write_text(self.folder / "table.md", self.markdown())
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(
            ["stage", *self.names, "score", "scored_by", "live", "balance", "agreement", "seconds", "error"]
        )
        for run in [*self.ladder, *self.trials]:
            values = [run.get(name, "") for name in ("live", "balance", "agreement", "seconds", "error")]
            writer.writerow([run["stage"], *(run[name] for name in self.names), run["score"], self.by, *values])
        write_text(self.folder / "table.csv", text.getvalue())
        best = {
            "scored_by": self.by,
            "note": MARK if self.by == "labels" else "no labels were used",
            "settings": {name: self.best[name] for name in self.names},
            "score": self.best["score"],
            "feasible_gamma": self.gamma if self.feasible else None,
            "command": self.command,
        }
        write_json(self.folder / "best.json", best)
        from cgmcr2.experiments import plots as figures

        try:
            figure = figures.tuning(self.ladder, self.trials, self.names, self.gamma, SCORES[self.by])
        except ImportError as error:
            return f"There is no plot. {error}"
        figures.footnote(figure, MARK if self.by == "labels" else "Scored without labels.")
        figures.save_figure(figure, self.folder / "plot")
        return None


def rank(run: Run) -> float:
    return math.inf if run["score"] is None else -run["score"]


def percent(score: float | None) -> str:
    return "failed" if score is None else f"{100 * score:.1f} %"


def live(run: Run) -> str:
    return "" if run.get("live") is None else f"{run['live']:g}/{run['clusters']}"
