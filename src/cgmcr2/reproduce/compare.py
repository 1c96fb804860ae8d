"""Every method on one feature file, each run in a process of its own: one table, resumable."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tqdm import tqdm

from cgmcr2._files import write_json
from cgmcr2.features.sources import load_feature_file

from .job import Job, complete_settings, known_methods, text_embeddings
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
    runs = _read(folder)
    jobs = [
        Job(source, method, seed, n_clusters, given.get(method, {}), labels, str(folder.resolve()))
        for seed in range(seeds)
        for method in wanted
    ]
    complete = {job.stem: complete_settings(job, *shape) for job in jobs}
    missing = [job for job in jobs if not _is_done(runs.get(job.stem), complete[job.stem])]
    with tqdm(total=len(missing), unit="run", disable=not progress) as bar:
        for job in missing:
            bar.set_description(f"{job.method}, seed {job.seed}")
            result = {"method": job.method, "seed": job.seed, "settings": complete[job.stem], **_run(job, limit)}
            with (folder / "runs.jsonl").open("a", encoding="utf-8") as log:
                log.write(json.dumps(result) + "\n")
            runs[job.stem] = result
            if tell is not None:
                with bar.external_write_mode():
                    tell(_line(result))
            bar.update()
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
    elif folder.exists() and any(folder.iterdir()):
        raise ValueError(f"{folder} is not empty and holds no comparison; choose a new folder.")
    else:
        write_json(path, request)


def _read(folder: Path) -> dict[str, dict[str, Any]]:
    """The last run of each method and seed. A line that was cut short by a crash is left out."""
    path, runs = folder / "runs.jsonl", {}
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else []:
        try:
            run = json.loads(line)
        except json.JSONDecodeError:
            continue
        runs[f"{run['method']}-{run['seed']}"] = run
    return runs


def _is_done(run: dict[str, Any] | None, settings: dict[str, Any]) -> bool:
    return run is not None and "error" not in run and run["settings"] == settings


def _run(job: Job, limit: float | None) -> dict[str, Any]:
    """The result of a job in a process of its own, or ``{"error": why there is none}``."""
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "job.json"
        write_json(path, dataclasses.asdict(job))
        try:
            ended = subprocess.run(
                [sys.executable, "-m", "cgmcr2.reproduce.job", str(path)],
                capture_output=True,
                timeout=limit,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return {"error": f"not done within {limit:g} seconds"}
        result = path.with_suffix(".result.json")
        if result.exists():
            found: dict[str, Any] = json.loads(result.read_text(encoding="utf-8"))
            return found
    if ended.returncode < 0:
        why = "as the system does when memory runs out" if ended.returncode == -signal.SIGKILL else "a crash"
        return {"error": f"ended by {signal.Signals(-ended.returncode).name}, {why}"}
    last = ended.stderr.decode(errors="replace").strip().splitlines()[-1:] or ["no message"]
    return {"error": f"ended with code {ended.returncode}: {last[0]}"}


def _line(run: dict[str, Any]) -> str:
    head = f"{run['method']}, seed {run['seed']}:"
    if "error" in run:
        return f"{head} failed: {run['error']}"
    names = ("acc", "nmi", "ari") if "acc" in run else ("silhouette",)
    scores = [
        f"{name.upper() if len(name) == 3 else name} {100 * run[name]:.1f} %" for name in names if run[name] is not None
    ]
    return f"{head} {'  '.join(scores)}  {run['seconds']:.1f} s"
