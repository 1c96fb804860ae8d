"""Damage the files of run folders and feature stores, and run commands on them; benchmarks/faults.py uses it too."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import os
import random
import shutil
import traceback
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np
import pytest

from cgmcr2.cli import run
from cgmcr2.features import FeatureStore
from cgmcr2.features.annotations import write_annotations
from cgmcr2.training import train

MUTATIONS = ("flip", "zero", "truncate", "append", "empty", "delete", "swap")

Words = list[object]


LABELS = ("labels.csv", "embeddings.npy", "probabilities.npy", "clusters.json")


def labels_of(run: Path) -> bytes:
    """The bytes of the results of a run."""
    return b"".join((run / name).read_bytes() for name in LABELS)


def rows_of(store: Path) -> bytes:
    """The bytes of ids and rows of a feature store."""
    opened = FeatureStore.open(store)
    return "\n".join(opened.ids).encode() + opened[:].tobytes()


@dataclasses.dataclass(frozen=True)
class Command:
    """A command on a folder, and what its result consists of."""

    words: Callable[[Path, Path], Words]  # of (folder, folder for the output)
    output: str = "*"  # names of the files of the result in the folder for the output
    printed: bool = False  # whether the printed text is part of the result
    state: Callable[[Path], bytes] = lambda folder: b""  # the part of the folder that is part of the result
    slow: bool = False  # it trains


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What a command did: its exit code, its messages, and its result."""

    code: int
    messages: str
    result: tuple[bytes, ...]


@dataclasses.dataclass(frozen=True)
class Failure:
    """A command that crashed, or silently gave another result than before the damage."""

    file: str
    mutation: str
    command: str
    problem: str


@dataclasses.dataclass
class Target:
    """A folder whose files are damaged, and the commands that read it."""

    folder: Path
    commands: dict[str, Command]
    codes: dict[str, int] = dataclasses.field(default_factory=dict)  # exit codes without damage, if not 0

    def files(self) -> list[str]:
        """The files of the folder, without locks."""
        paths = (path for path in self.folder.rglob("*") if path.is_file() and path.name != ".lock")
        return sorted(str(path.relative_to(self.folder)) for path in paths)


def make_targets(photos: Path, quick: list[str], work: Path) -> dict[str, Target]:
    """Make a run on images, a run on features, an interrupted run and a feature store in the new folder ``work``."""
    work.mkdir()
    training = [word for word in quick if word not in ("--encoder", "colours")]
    cluster: Words = ["cluster", photos, "-k", 3, *quick]
    store, images, features = work / "store", work / "images", work / "features"
    assert run("embed", photos, "--encoder", "colours", "-o", store, "-q") == 0
    labelled = FeatureStore.open(store)
    rows = np.arange(len(labelled))
    write_annotations(labelled, labelled.ids, ["red", "green", "blue"], labels=rows % 3, split=np.zeros(len(rows), int))
    assert run(*cluster, "-o", images, "-q") == 0
    assert run("fit", store, "-k", 3, "-o", features, "-q", *training) == 0
    assert run("report", features, "--map", "pca", "-q") == 0
    interrupted = work / "interrupted"
    _interrupt([*cluster, "-o", interrupted])
    doctor = {
        "doctor": Command(lambda folder, out: ["doctor", folder]),
        "doctor --repair": Command(lambda folder, out: ["doctor", folder, "--repair"], state=labels_of),
    }
    evaluate = Command(lambda folder, out: ["evaluate", folder, store, "--part", "all"], printed=True)
    predict = Command(lambda folder, out: ["predict", folder, store, "-o", out / "new.csv"])
    report = Command(lambda folder, out: ["report", folder, "-o", out / "page.html", "--map", "pca"])
    export = Command(lambda folder, out: ["export", folder, "--to", "csv", "-o", out / "table.csv"])
    return {
        "images": Target(
            images,
            {
                "report": report,
                "export csv": export,
                "export folders": Command(lambda folder, out: ["export", folder, "-o", out / "sorted"]),
                "predict images": Command(
                    lambda folder, out: ["predict", folder, photos, "--no-cache", "-o", out / "new.csv"]
                ),
                "predict features": Command(
                    lambda folder, out: ["predict", folder, folder / "features", "-o", out / "new.csv"]
                ),
                "evaluate": evaluate,
                "choose-k": Command(
                    lambda folder, out: ["choose-k", photos, "-o", folder, "--most", 4, "--encoder", "colours"],
                    printed=True,
                ),
                "cluster": Command(lambda folder, out: [*cluster, "-o", folder], state=labels_of),
                "cluster --refit": Command(
                    lambda folder, out: ["cluster", photos, "-k", 2, "-o", folder, "--refit", "--no-report", *quick],
                    state=labels_of,
                    slow=True,
                ),
                "fit --config": Command(
                    lambda folder, out: ["fit", store, "--config", folder / "run.json", "-o", out / "repeated"],
                    slow=True,
                ),
                **doctor,
            },
        ),
        "features": Target(
            features,
            {
                "report": report,
                "export csv": export,
                "predict": predict,
                "evaluate": evaluate,
                "fit": Command(lambda folder, out: ["fit", store, "-k", 3, "-o", folder, *training], state=labels_of),
                **doctor,
            },
        ),
        "interrupted": Target(
            interrupted,
            {
                "cluster": Command(lambda folder, out: [*cluster, "-o", folder, "--no-report"], state=labels_of),
                "cluster --refit": Command(
                    lambda folder, out: [*cluster, "-o", folder, "--no-report", "--refit"], state=labels_of, slow=True
                ),
                "report": report,
                "doctor": doctor["doctor"],
            },
            {"report": 2, "doctor": 1},
        ),
        "store": Target(
            store,
            {
                "embed": Command(
                    lambda folder, out: ["embed", photos, "--encoder", "colours", "-o", folder], state=rows_of
                ),
                "fit": Command(lambda folder, out: ["fit", folder, "-k", 3, "-o", out / "run", *training], slow=True),
                "choose-k": Command(lambda folder, out: ["choose-k", folder, "--most", 4], printed=True),
                "predict": Command(lambda folder, out: ["predict", features, folder, "-o", out / "new.csv"]),
                "evaluate": Command(
                    lambda folder, out: ["evaluate", features, folder, "--part", "train"], printed=True
                ),
                "compare": Command(
                    lambda folder, out: [
                        *("compare", folder, "-k", 3, "--methods", "k-means", "--seeds", 1, "--in-process"),
                        *("-o", out / "compared"),
                    ],
                    output="*.npy",
                    slow=True,
                ),
                "doctor": doctor["doctor"],
                "doctor --repair": Command(lambda folder, out: ["doctor", folder, "--repair"], state=rows_of),
            },
        ),
    }


def _interrupt(words: Words) -> None:
    """Run a command that trains, and kill it after some checkpoints."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(train.__kwdefaults__, "checkpoint_seconds", -1.0)  # a checkpoint after every step
        assert killed_at(60, patch, lambda: run(*words, "-q"))


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


def execute(command: Command, folder: Path, out: Path) -> Outcome:
    """Run a command in this process; a traceback has exit code -1."""
    out.mkdir(parents=True, exist_ok=True)
    error, printed = io.StringIO(), io.StringIO()
    words = command.words(folder, out)
    with contextlib.redirect_stderr(error), contextlib.redirect_stdout(printed):
        try:
            code = run(*words, "-q")
        except BaseException:
            return Outcome(-1, traceback.format_exc(), ())
    messages = error.getvalue() + printed.getvalue()
    if code:
        return Outcome(code, messages, ())
    files = sorted(path for path in out.rglob(command.output) if path.is_file() and path.name != ".lock")
    output = b"".join(str(path.relative_to(out)).encode() + path.read_bytes() for path in files)
    text = printed.getvalue().encode() if command.printed else b""
    return Outcome(code, messages, (output, text, command.state(folder)))


def inject(
    target: Target, work: Path, faults: Iterable[tuple[str, str, int]], commands: int, slow: float
) -> Iterator[Failure | str]:
    """Yield the outcome of commands of ``target`` for each (file, mutation, seed) of ``faults``.

    The outcome is a failure or the name of the command. A random sample of ``commands`` is run, and each slow command
    with probability ``slow``. Each gets a fresh copy of the folder.
    """
    copy, out = work / "copy", work / "out"

    def fresh() -> None:
        shutil.rmtree(copy, ignore_errors=True)
        shutil.rmtree(out, ignore_errors=True)
        shutil.copytree(target.folder, copy)

    reference = {}
    for name, command in target.commands.items():
        fresh()
        reference[name] = execute(command, copy, out)
        assert reference[name].code == target.codes.get(name, 0), reference[name].messages
    fast = [name for name, command in target.commands.items() if not command.slow]
    for file, mutation, seed in faults:
        rng = random.Random(seed)
        sample = rng.sample(fast, min(commands, len(fast)))
        sample += [name for name, command in target.commands.items() if command.slow and rng.random() < slow]
        for name in sample:
            fresh()
            mutate(copy / file, mutation, random.Random(seed))
            outcome = execute(target.commands[name], copy, out)
            problem = _problem(outcome, reference[name])
            yield Failure(file, mutation, name, problem) if problem else name


def _problem(outcome: Outcome, reference: Outcome) -> str | None:
    if outcome.code == -1:
        return outcome.messages
    if outcome.code == 0:
        listed = "failed: " in outcome.messages  # compare lists failed runs and their reasons
        return None if listed or outcome.result == reference.result else "another result without an error"
    described = any(line.startswith("cgmcr2: ") for line in outcome.messages.splitlines())
    return None if described or outcome.code == 1 else f"exit code {outcome.code}: {outcome.messages}"
