"""Runs jobs, each in a process of its own, and keeps what they yield in ``runs.jsonl``; a failure is a line, too."""

from __future__ import annotations

import dataclasses
import json
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tqdm import tqdm

from cgmcr2._files import write_json

from .job import Job

Run = dict[str, Any]


def run_missing(
    jobs: Sequence[tuple[Job, dict[str, Any]]],
    folder: Path,
    *,
    limit: float | None = None,
    progress: bool = False,
    tell: Callable[[str], None] | None = None,
) -> dict[str, Run]:
    """Run every job, given with its complete settings, that ``folder`` does not hold yet; all runs by their job's stem.

    A run that fails, crashes or exceeds ``limit`` seconds says so under ``error``, and is tried again the next time.
    """
    runs = read_runs(folder)
    missing = [(job, settings) for job, settings in jobs if not _is_done(runs.get(job.stem), settings)]
    with tqdm(total=len(missing), unit="run", disable=not progress) as bar:
        for job, settings in missing:
            bar.set_description(job.title)
            facts = {"run": job.stem, "method": job.method, "seed": job.seed, "settings": settings}
            result = {**facts, **_run(job, limit)}
            with (folder / "runs.jsonl").open("a", encoding="utf-8") as log:
                log.write(json.dumps(result) + "\n")
            runs[job.stem] = result
            if tell is not None:
                with bar.external_write_mode():
                    tell(f"{job.title}: {_outcome(result)}")
            bar.update()
    return runs


def read_runs(folder: Path) -> dict[str, Run]:
    """The last run of each job in ``folder``. A line that was cut short by a crash is left out."""
    path, runs = folder / "runs.jsonl", {}
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else []:
        try:
            run = json.loads(line)
        except json.JSONDecodeError:
            continue
        runs[run["run"]] = run
    return runs


def _is_done(run: Run | None, settings: dict[str, Any]) -> bool:
    """Whether the run was done with these settings; one that did not exist then is no reason to do it again."""
    if run is None or "error" in run:
        return False
    return all(name in settings and settings[name] == value for name, value in run["settings"].items())


def _run(job: Job, limit: float | None) -> Run:
    """The result of a job in a process of its own, or ``{"error": why there is none}``."""
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "job.json"
        write_json(path, dataclasses.asdict(job))
        try:
            ended = subprocess.run(
                [sys.executable, "-m", "cgmcr2.experiments.job", str(path)],
                capture_output=True,
                timeout=limit,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return {"error": f"not done within {limit:g} seconds"}
        result = path.with_suffix(".result.json")
        if result.exists():
            found: Run = json.loads(result.read_text(encoding="utf-8"))
            return found
    if ended.returncode < 0:
        why = "as the system does when memory runs out" if ended.returncode == -signal.SIGKILL else "a crash"
        return {"error": f"ended by {signal.Signals(-ended.returncode).name}, {why}"}
    last = ended.stderr.decode(errors="replace").strip().splitlines()[-1:] or ["no message"]
    return {"error": f"ended with code {ended.returncode}: {last[0]}"}


def _outcome(run: Run) -> str:
    if "error" in run:
        return f"failed: {run['error']}"
    if "seconds_per_iteration" in run:
        return f"{run['seconds_per_iteration']:.3g} s an iteration"
    names = ("acc", "nmi", "ari") if "acc" in run else ("silhouette",)
    scores = [
        f"{name.upper() if len(name) == 3 else name} {100 * run[name]:.1f} %" for name in names if run[name] is not None
    ]
    return f"{'  '.join(scores)}  {run['seconds']:.1f} s"
