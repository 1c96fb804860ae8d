"""The training log: ``metrics.jsonl``, the history in memory, the progress bar and TensorBoard."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from types import TracebackType
from typing import Any

import xxhash

from cgmcr2._files import write_text
from cgmcr2._progress import progress_bar

from .monitor import NAMES, Record

TERMS = NAMES[1:]


class TrainingLog:
    """Writes the records of steps to ``metrics.jsonl``, the history, the progress bar and TensorBoard.

    Args:
        folder: where ``metrics.jsonl`` and TensorBoard's files go; None keeps the history in memory only.
        total_steps: steps of the whole training.
        first_step: the step that training resumes at; records from there on are dropped from ``metrics.jsonl``.
        digest: digest of the records before ``first_step``, from the checkpoint.
        progress: show a progress bar.
        tensorboard: write TensorBoard logs.
    """

    def __init__(
        self,
        folder: Path | None,
        total_steps: int,
        first_step: int,
        *,
        digest: str = "",
        progress: bool,
        tensorboard: bool,
    ) -> None:
        self.metrics = MetricsFile(folder / "metrics.jsonl", first_step, digest) if folder else None
        self.history: list[Record] = list(self.metrics.records) if self.metrics else []
        self._board = _tensorboard(folder) if tensorboard else None
        self._bar = progress_bar(total_steps, desc="Training", unit="steps", enabled=progress, initial=first_step)
        self._flushed_at = time.perf_counter()

    @property
    def digest(self) -> str:
        """The digest of all records in ``metrics.jsonl``."""
        return self.metrics.digest if self.metrics else ""

    def write(self, records: list[Record], n_clusters: int) -> None:
        """Add the ``records`` of the steps since the last call."""
        now = time.perf_counter()
        seconds = (now - self._flushed_at) / len(records)  # the mean over the steps since the last call
        self._flushed_at = now
        self.history += [{**record, "seconds": round(seconds, 6)} for record in records]
        if self.metrics:  # without timings, so that the file is reproducible
            self.metrics.append(
                [{name: record[name] for name in record if name != "module_seconds"} for record in records]
            )
        if self._board:
            _write_board(self._board, records)
        last = records[-1]
        terms = {name: f"{last[name]:.3g}" for name in TERMS if last[name] is not None}
        self._bar.set_description(last["stage"].capitalize())
        self._bar.set_postfix(**terms, live=f"{max(last['live_clusters'])}/{n_clusters}")
        self._bar.update(len(records))

    def __enter__(self) -> TrainingLog:
        self._bar.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.__exit__(kind, error, trace)
        if self._board:
            self._board.close()


class MetricsFile:
    """``metrics.jsonl``: one line per step.

    Args:
        path: the file.
        resume_at: the step that training resumes at. Lines from there on, which will be repeated, are dropped.
        digest: digest of the lines before ``resume_at``.
    """

    def __init__(self, path: Path, resume_at: int, digest: str = "") -> None:
        self.path = path
        self._hash = xxhash.xxh3_128()
        self.records = [record for record in read_metrics(path) if record["step"] < resume_at] if path.exists() else []
        text = self._lines(self.records)
        if resume_at and self.digest != digest:
            raise ValueError(
                f"{path} has missing or changed steps before step {resume_at}, at which training resumes; "
                f"delete {path.with_name('checkpoint.safetensors')} to train from the beginning."
            )
        write_text(path, text)

    @property
    def digest(self) -> str:
        """The XXH3-128 digest of all lines."""
        return self._hash.hexdigest()

    def append(self, records: list[Record]) -> None:
        """Append ``records`` and flush them to disk."""
        with self.path.open("a", encoding="utf-8") as file:
            file.write(self._lines(records))
            file.flush()
            os.fsync(file.fileno())

    def _lines(self, records: list[Record]) -> str:
        text = "".join(json.dumps(record) + "\n" for record in records)
        self._hash.update(text.encode())
        return text


def read_metrics(path: Path) -> list[Record]:
    """The records of a ``metrics.jsonl`` up to the first line that is incomplete or damaged."""
    records = []
    for line in path.read_bytes().splitlines():
        try:
            record = json.loads(line)
        except ValueError:
            break
        if not isinstance(record, dict) or not isinstance(record.get("step"), int):
            break
        records.append(record)
    return records


def _tensorboard(folder: Path | None) -> Any:
    if folder is None:
        raise ValueError("TensorBoard needs a folder to write to; pass folder=...")
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise ImportError("TensorBoard is not installed; install it with: pip install 'cgmcr2[log]'") from error
    return SummaryWriter(str(folder / "tensorboard"))


def _write_board(board: Any, records: list[Record]) -> None:
    for record in records:
        for name in ("loss", *TERMS, "lr"):
            if record[name] is not None:
                board.add_scalar(name, record[name], record["step"])
        board.add_scalar("live_clusters", max(record["live_clusters"]), record["step"])
