"""Every method on one feature file, each run in a process of its own: one table, resumable."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from cgmcr2._files import write_json
from cgmcr2.features.sources import load_feature_file

from .job import Job, complete_settings, known_methods, text_embeddings
from .runner import run_missing
from .table import draw, to_csv, to_markdown

NO_TEXT = "needs text embeddings of nouns: an array 'text' in the .npz, or --set tac.text=FILE"


@dataclasses.dataclass
class Comparison:
    """All runs of a comparison, and the methods left out with the reason."""

    folder: Path
    runs: list[dict[str, Any]]
    skipped: dict[str, str]

    def markdown(self) -> str:
        """The table: mean ± std over the seeds."""
        return to_markdown(self.runs, self.skipped, self.folder / "labels")

    def save(self) -> str | None:
        """Write ``table.md``, ``table.csv``, ``plot.png`` and ``plot.svg``; why there is no plot, if there is none."""
        from cgmcr2._files import write_text

        write_text(self.folder / "table.md", self.markdown())
        write_text(self.folder / "table.csv", to_csv(self.runs, self.skipped, self.folder / "labels"))
        return draw(self.runs, self.folder)


def compare(
    features: str | os.PathLike[str],
    n_clusters: int,
    folder: str | os.PathLike[str],
    *,
    methods: Sequence[str] = ("all",),
    seeds: int = 3,
    settings: Mapping[str, Mapping[str, Any]] | None = None,
    labels: str = "labels",
    limit: float | None = None,
    progress: bool = False,
    tell: Callable[[str], None] | None = None,
) -> Comparison:
    """Run ``methods`` with seeds 0, 1, ... on a feature file into ``folder``; runs that are there are not done again.

    A run is there if it has the same settings, those that were not given included: a default that has changed since
    runs again.

    Where the file has a split, a method is fitted on split 0 and predicts split 1 (one that cannot predict clusters
    split 1 itself); else all rows are fitted and labelled. A run that fails, crashes or exceeds ``limit`` seconds is a
    row that says so, and is tried again the next time. ``settings[method]`` overrides its published settings. "all" is
    ``auto`` and every baseline; ``paper`` and ``reference``, CgMCR²'s other presets, are run where they are named.
    """
    if seeds < 1:
        raise ValueError(f"The number of seeds is {seeds}; give at least 1.")
    given = {method: dict(values) for method, values in (settings or {}).items()}
    wanted = _resolve(methods, given)
    file = load_feature_file(features, labels=labels)
    folder = Path(folder)
    source = str(Path(features).resolve())
    _claim(folder, {"features": source, "shape": list(file.features.shape), "n_clusters": n_clusters, "labels": labels})
    skipped = {}
    if "tac" in wanted and "text" not in given.get("tac", {}) and text_embeddings(source) is None:
        skipped["tac"] = NO_TEXT
        wanted.remove("tac")
    fitted = len(file.rows("train")) or len(file.rows("all"))
    shape = (fitted, file.features.shape[1])
    del file  # the runs load it themselves
    jobs = [
        Job(source, method, seed, n_clusters, given.get(method, {}), labels, str(folder.resolve()))
        for seed in range(seeds)
        for method in wanted
    ]
    complete = [(job, complete_settings(job, *shape)) for job in jobs]
    runs = run_missing(complete, folder, limit=limit, progress=progress, tell=tell)
    return Comparison(folder, [runs[job.stem] for job in jobs], skipped)


def _resolve(methods: Sequence[str], settings: Mapping[str, Any]) -> list[str]:
    """The methods meant, each once; a name that is not there is said with those that are."""
    known = known_methods()
    for name in (*methods, *settings):
        if name not in known and name != "all":
            raise ValueError(f"There is no method named {name!r}; there are all, {', '.join(known)}.")
    every = [name for name in known if name not in ("paper", "reference")]
    return list(dict.fromkeys(found for name in methods for found in (every if name == "all" else [name])))


def _claim(folder: Path, request: dict[str, Any]) -> None:
    """Make the folder this comparison's, or refuse if it is another's."""
    path = folder / "compare.json"
    if path.exists():
        if json.loads(path.read_text(encoding="utf-8")) != request:
            raise ValueError(f"{folder} holds a comparison of other features, clusters or labels; take another folder.")
    elif folder.exists() and any(path.name != "features" for path in folder.iterdir()):  # those it may have embedded
        raise ValueError(f"{folder} is not empty and holds no comparison; choose a new folder.")
    else:
        write_json(path, request)
