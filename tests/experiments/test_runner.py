from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from cgmcr2.experiments.job import Job
from cgmcr2.experiments.runner import read_results, run_missing


@pytest.fixture
def job(split_file: Path, tmp_path: Path) -> Job:
    return Job(str(split_file), "k-means", 0, 3, {}, "labels", str(tmp_path))


def run(job: Job, folder: Path, limit: float | None = None) -> str:
    return str(run_missing([(job, {})], folder, limit=limit)[job.key].get("error"))


def test_a_run_that_exceeds_the_limit_is_recorded(job: Job, tmp_path: Path) -> None:
    assert run(job, tmp_path, limit=0.01) == "exceeded the time limit of 0.01 seconds"


@pytest.mark.parametrize(
    ("script", "error"),
    [
        ("kill -9 $$", "killed by SIGKILL, probably out of memory"),
        ("kill -11 $$", "killed by SIGSEGV"),
        ("echo first >&2; echo last >&2; exit 3", "exited with code 3: last"),
    ],
)
def test_a_crash_is_recorded(
    script: str, error: str, job: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\n{script}\n")
    python.chmod(0o755)
    monkeypatch.setattr("sys.executable", str(python))
    assert run(job, tmp_path) == error


def test_the_last_result_counts_and_incomplete_lines_are_skipped(tmp_path: Path) -> None:
    (tmp_path / "runs.jsonl").write_text('{"run": "a", "acc": 1}\n{"run": "a", "acc": 2}\n{"run": "b", "ac')
    assert read_results(tmp_path) == {"a": {"run": "a", "acc": 2}}


def test_a_setting_added_later_does_not_repeat_a_run(job: Job, tmp_path: Path) -> None:
    def runs(settings: dict[str, int]) -> int:
        run_missing([(dataclasses.replace(job), settings)], tmp_path, in_process=True)
        return len((tmp_path / "runs.jsonl").read_text().splitlines())

    assert runs({"a": 1}) == 1
    assert runs({"a": 1, "b": 2}) == 1
    assert runs({"a": 2}) == 2
