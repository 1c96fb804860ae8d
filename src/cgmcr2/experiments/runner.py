"""Run jobs, each in a separate process, and record the results in ``runs.jsonl``."""

from __future__ import annotations

import dataclasses
import json
import logging
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cgmcr2._files import write_json
from cgmcr2._progress import progress_bar

from .job import Job, JobResult, attempt_job

logger = logging.getLogger(__name__)


def run_missing(
    jobs: Sequence[tuple[Job, dict[str, Any]]],
    folder: Path,
    *,
    limit: float | None = None,
    in_process: bool = False,
    progress: bool = False,
) -> dict[str, JobResult]:
    """Run the jobs without a result in ``folder``, and return all results.

    Parameters
    ----------
    jobs : sequence of (Job, dict)
        Jobs with their complete settings. A result with other settings does not count.
    folder : Path
        Folder of ``runs.jsonl``.
    limit : float, optional
        Time limit of a job in seconds. A job that fails, crashes or exceeds it is recorded with an ``error`` and
        retried next time.
    in_process : bool
        Run the jobs in this process, which saves starting one process per job. Then a crash ends the program, memory
        is not measured, and ``limit`` is not supported.
    progress : bool
        Show a progress bar.

    Returns
    -------
    results : dict of str to JobResult
        Results by ``Job.key``.
    """
    if in_process and limit is not None:
        raise ValueError("A time limit needs one process per run; use either limit or in_process, not both.")
    results = read_results(folder)
    missing = []
    for job, settings in jobs:
        result = results.get(job.key, {"error": "not run"})
        changes = _changes(result, settings)
        if "error" in result or changes:
            missing.append((job, settings))
        if "error" not in result and changes:
            logger.info("%s is run again, because settings have changed: %s", job.description, "; ".join(changes))
    with progress_bar(len(missing), desc="Running", unit="runs", enabled=progress) as bar:
        for job, settings in missing:
            bar.set_description(job.description)
            record = {"run": job.key, "method": job.method, "seed": job.seed, "settings": settings}
            record |= {**attempt_job(job), "memory_mb": None} if in_process else _run_in_subprocess(job, limit)
            with (folder / "runs.jsonl").open("a", encoding="utf-8") as log:
                log.write(json.dumps(record) + "\n")
            results[job.key] = record
            logger.info("%s: %s", job.description, _outcome(record))
            bar.update()
    return results


def read_results(folder: Path) -> dict[str, JobResult]:
    """Return the last result of each job in ``folder``; incomplete lines, which a crash may leave, are skipped."""
    path, results = folder / "runs.jsonl", {}
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else []:
        try:
            result = json.loads(line)
        except json.JSONDecodeError:
            continue
        results[result["run"]] = result
    return results


def _changes(result: JobResult, settings: dict[str, Any]) -> list[str]:
    """The differences of these settings from those of a result; settings that it does not record are ignored."""
    return [
        f"{name} was {value}, is {settings.get(name)}"
        for name, value in result.get("settings", {}).items()
        if name not in settings or settings[name] != value
    ]


def _run_in_subprocess(job: Job, limit: float | None) -> JobResult:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "job.json"
        write_json(path, dataclasses.asdict(job))
        try:
            process = subprocess.run(  # noqa: S603 - our own module in our own interpreter
                [sys.executable, "-m", "cgmcr2.experiments.job", str(path)],
                capture_output=True,
                timeout=limit,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return {"error": f"exceeded the time limit of {limit:g} seconds"}
        output = path.with_suffix(".result.json")
        if output.exists():
            result: JobResult = json.loads(output.read_text(encoding="utf-8"))
            return result
    if process.returncode < 0:
        name = signal.Signals(-process.returncode).name
        return {"error": f"killed by {name}" + (", probably out of memory" if name == "SIGKILL" else "")}
    last_line = process.stderr.decode(errors="replace").strip().splitlines()[-1:] or ["no message"]
    return {"error": f"exited with code {process.returncode}: {last_line[0]}"}


def _outcome(result: JobResult) -> str:
    if "error" in result:
        return f"failed: {result['error']}"
    if "seconds_per_iteration" in result:
        return f"{result['seconds_per_iteration']:.3g} s per iteration"
    names = {"acc": "ACC", "nmi": "NMI", "ari": "ARI"} if "acc" in result else {"silhouette": "silhouette"}
    scores = [f"{title} {100 * result[name]:.1f} %" for name, title in names.items() if result[name] is not None]
    return f"{'  '.join(scores)}  {result['seconds']:.1f} s"
