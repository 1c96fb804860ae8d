"""Damage the files of a run folder and see what the commands make of it; used by tests and by benchmarks/faults.py."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import os
import random
import shutil
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cgmcr2.cli import run

MUTATIONS = ("flip", "zero", "truncate", "append", "empty", "delete", "swap")


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What a command did: its exit code, its messages, and the bytes it wrote."""

    code: int
    error: str
    output: bytes


@dataclasses.dataclass(frozen=True)
class Failure:
    """A command that crashed, or silently gave another result than before the damage."""

    file: str
    mutation: str
    command: str
    problem: str


def mutate(path: Path, mutation: str, rng: random.Random) -> None:
    """Damage one file."""
    data = bytearray(path.read_bytes())
    position = rng.randrange(len(data)) if data else 0
    if mutation == "flip" and data:
        data[position] ^= 1 << rng.randrange(8)
    elif mutation == "zero" and data:
        size = rng.randint(1, 512)
        data[position : position + size] = bytes(len(data[position : position + size]))
    elif mutation == "truncate":
        del data[position:]
    elif mutation == "append":
        data += rng.randbytes(rng.randint(1, 64))
    elif mutation == "empty":
        data.clear()
    elif mutation == "delete":
        path.unlink()
        return
    elif mutation == "swap" and data:  # exchange two characters, as an editor might
        other = rng.randrange(len(data))
        data[position], data[other] = data[other], data[position]
    path.write_bytes(data)


class Killed(BaseException):
    """Stands for the end of the process."""


def killed_at(operation: int, monkeypatch: pytest.MonkeyPatch, action: Callable[[], object]) -> bool:
    """Run ``action``, but kill it at the n-th change of a folder; return whether it was killed.

    A change is a file or folder that is created, renamed or deleted. All later changes fail as well, so that the
    handlers of the exception cannot clean up, as in a process that is killed.
    """
    remaining = operation

    def failing(function: Callable[..., object]) -> Callable[..., object]:
        def call(*arguments: object, **keywords: object) -> object:
            nonlocal remaining
            remaining -= 1
            if remaining < 0:
                raise Killed
            return function(*arguments, **keywords)

        return call

    with monkeypatch.context() as patch:
        for name in ("replace", "unlink", "remove", "mkdir", "rmdir"):
            patch.setattr(os, name, failing(getattr(os, name)))
        with contextlib.suppress(Killed):
            action()
    return remaining < 0


def files_of(folder: Path) -> list[str]:
    """The files of a run folder, without its lock."""
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file() and p.name != ".lock")


def commands(source: Path, quick: list[str]) -> dict[str, Callable[[Path, Path], list[object]]]:
    """Words of each command, given the run folder and a folder for its output."""
    return {
        "report": lambda run, out: ["report", run, "-o", out / "page.html", "--map", "pca"],
        "export csv": lambda run, out: ["export", run, "--to", "csv", "-o", out / "table.csv"],
        "export folders": lambda run, out: ["export", run, "-o", out / "sorted"],
        "predict images": lambda run, out: ["predict", run, source, "--no-cache", "-o", out / "new.csv"],
        "predict features": lambda run, out: ["predict", run, run / "features", "-o", out / "new.csv"],
        "cluster": lambda run, out: ["cluster", source, "-k", 3, "-o", run, *quick],
        "doctor": lambda run, out: ["doctor", run],
    }


def execute(words: list[object], out: Path) -> Outcome:
    """Run a command in this process; a traceback has exit code -1."""
    out.mkdir(parents=True, exist_ok=True)
    error, printed = io.StringIO(), io.StringIO()
    with contextlib.redirect_stderr(error), contextlib.redirect_stdout(printed):
        try:
            code = run(*words, *([] if words[0] == "doctor" else ["-q"]))
        except BaseException:
            return Outcome(-1, traceback.format_exc(), b"")
    written = b"".join(p.name.encode() + p.read_bytes() for p in sorted(out.rglob("*")) if p.is_file())
    return Outcome(code, error.getvalue(), written)


def inject(
    folder: Path, source: Path, quick: list[str], work: Path, faults: list[tuple[str, str, int]]
) -> Iterator[Failure]:
    """Yield the failures of all commands for each (file, mutation, seed) of ``faults`` on copies of ``folder``."""
    table = commands(source, quick)
    reference = {}
    for name, words in table.items():
        copy = work / "reference"
        shutil.copytree(folder, copy, dirs_exist_ok=True)
        reference[name] = execute(words(copy, work / f"reference-{name}"), work / f"reference-{name}")
    labels = (folder / "labels.csv").read_bytes()
    for file, mutation, seed in faults:
        for name, words in table.items():
            shutil.rmtree(work / "run", ignore_errors=True)
            shutil.rmtree(work / "out", ignore_errors=True)
            shutil.copytree(folder, work / "run")
            mutate(work / "run" / file, mutation, random.Random(seed))
            unchanged = (work / "run" / file).exists() and (work / "run" / file).read_bytes() == (
                folder / file
            ).read_bytes()
            outcome = execute(words(work / "run", work / "out"), work / "out")
            problem = _problem(name, outcome, reference[name], unchanged)
            if not problem and name == "cluster" and outcome.code == 0 and not unchanged:
                after = work / "run" / "labels.csv"
                if not after.exists() or (after.read_bytes() != labels and file != "labels.csv"):
                    problem = "labels.csv changed"
            if problem:
                yield Failure(file, mutation, name, problem)


def _problem(name: str, outcome: Outcome, reference: Outcome, unchanged: bool) -> str | None:
    if outcome.code == -1:
        return outcome.error
    if unchanged:
        return None
    if outcome.code != 0:
        lines = [line for line in outcome.error.splitlines() if line.startswith("cgmcr2: ")]
        return None if lines or name == "doctor" else f"exit code {outcome.code} without a sentence: {outcome.error}"
    if name in ("cluster", "doctor"):
        return None
    return None if outcome.output == reference.output else "another result without an error"
