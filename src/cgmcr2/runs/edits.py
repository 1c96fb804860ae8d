"""Edit the clusters of a run, with undo."""

from __future__ import annotations

import datetime
import errno
import json
import os
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from cgmcr2.clustering import Clustering
from cgmcr2.clustering.corrections import Corrections, find_corrections
from cgmcr2.clustering.edits import (
    Edit,
    base_state,
    history_of,
    next_state,
    read_edits,
    replay,
)
from cgmcr2.clustering.labels import Label, read_labels
from cgmcr2.clustering.splitting import propose_split

from .folder import RunFolder, StrPath

MAX_STATES = 10  # recent states in memory, so that an undo need not replay all edits; 36 MB each for 1 million images


class Edits:
    """The edits of a run. Every edit is written to ``edits.jsonl`` and synced before the method returns.

    The fitted labels are never changed: the current clustering is the replay of the edits. The run folder is locked
    while the edits are open, so a second process that edits it is refused.

    Parameters
    ----------
    run : a run folder
    read_only : whether to read the edits only, without the lock: another process may edit the run at the same time

    Examples
    --------
    Rename a cluster, move two images to it, and take that back::

        with Edits("run") as edits:
            edits.rename(3, "dogs")
            edits.move(["IMG_1.jpg", "IMG_2.jpg"], "dogs")
            edits.undo()
            edits.clustering
    """

    def __init__(self, run: StrPath | RunFolder, *, read_only: bool = False) -> None:
        self.run = run if isinstance(run, RunFolder) else RunFolder(run)
        self.read_only = read_only
        self._stack = ExitStack()

    def __enter__(self) -> Edits:
        with ExitStack() as stack:
            self.run.verify()
            if not self.read_only:
                stack.enter_context(self.run.lock())
            self.fitted = self.run.fitted
            self.log, length = read_edits(self.run.edits, self.fitted)
            if not self.read_only:
                self._file = stack.enter_context(open(self.run.edits, "ab", buffering=0))
                self._file.truncate(length)  # drop a line that was torn by a crash
            self._stack = stack.pop_all()
        self.history = history_of(self.log)
        self.clustering = replay(self.fitted, self.history.done)
        self._recent = deque([(self.history.done, self.clustering)], maxlen=MAX_STATES)
        self._row = {id: row for row, id in enumerate(self.fitted.ids)}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()
        self.run.__dict__.pop("clustering", None)  # cached without the edits

    @property
    def state(self) -> str:
        """Hash of the current state."""
        return next_state(self.log[-1]) if self.log else self._base_state

    @cached_property
    def _base_state(self) -> str:
        return base_state(self.fitted)

    def rename(self, cluster: int | str, name: str) -> Clustering:
        """Rename a cluster, given by its number or current name."""
        return self._apply("rename", cluster=self._number(cluster), name=name)

    def merge(self, clusters: Sequence[int | str], name: str | None = None) -> Clustering:
        """Merge clusters into the first of them."""
        return self._apply("merge", clusters=[self._number(cluster) for cluster in clusters], name=name)

    def preview_split(self, cluster: int | str, m: int = 2) -> list[list[int]]:
        """The rows of the m - 1 smaller of m parts of a cluster, which ``split`` accepts."""
        features = self.run.features(self.fitted.ids)
        return [rows.tolist() for rows in propose_split(self.clustering, cluster, m, features=features)]

    def split(
        self,
        cluster: int | str,
        parts: Sequence[ArrayLike] | int = 2,
        names: Sequence[str | None] | None = None,
    ) -> Clustering:
        """Split a cluster into parts: their number, or the rows of each new cluster."""
        rows = self.preview_split(cluster, parts) if isinstance(parts, int) else [self._rows(part) for part in parts]
        return self._apply(
            "split", cluster=self._number(cluster), parts=rows, names=None if names is None else list(names)
        )

    def move(self, images: Sequence[str] | ArrayLike, cluster: int | str) -> Clustering:
        """Move images, given by row or file name, to a cluster."""
        return self._apply("move", rows=self._rows(images), cluster=self._number(cluster))

    def new(self, images: Sequence[str] | ArrayLike, name: str | None = None) -> Clustering:
        """Move images to a new cluster."""
        return self._apply("new", rows=self._rows(images), name=name)

    def exclude(self, images: Sequence[str] | ArrayLike) -> Clustering:
        """Remove images from all clusters and exports."""
        return self._apply("exclude", rows=self._rows(images))

    def reject(self, images: Sequence[str] | ArrayLike, clusters: Sequence[int | str]) -> Clustering:
        """Record that images belong to none of ``clusters``; those in one of them move to the best other cluster."""
        return self._apply("reject", rows=self._rows(images), clusters=[self._number(cluster) for cluster in clusters])

    def refine(
        self,
        images: Sequence[str] | ArrayLike,
        clusters: ArrayLike,
        confidence: ArrayLike | None = None,
        margin: ArrayLike | None = None,
        model: str | None = None,
    ) -> Clustering:
        """Move each image to its cluster number in ``clusters``, as a refinement proposes.

        ``confidence`` and ``margin`` are rounded to 4 digits. ``model`` is the name of the folder of refined weights in
        the run folder, which must have been written before.
        """
        return self._apply(
            "refine",
            rows=self._rows(images),
            clusters=np.asarray(clusters).tolist(),
            confidence=_rounded(confidence),
            margin=_rounded(margin),
            model=model,
        )

    def batch(self, edits: Sequence[tuple[str, Mapping[str, Any]]]) -> Clustering:
        """Apply several edits as one line of the log, which one ``undo`` takes back; all of them or none.

        Each edit is a pair of a verb and the keyword arguments of that method of ``Clustering``; ``rows`` and ``parts``
        may also hold file names. Clusters may be given by a name that an earlier edit of the batch has set.
        """
        return self._apply("batch", edits=[[verb, self._plain(arguments)] for verb, arguments in edits])

    def lock(self, images: Sequence[str] | ArrayLike) -> Clustering:
        """Confirm the clusters of images, so that they are not moved."""
        return self._apply("lock", rows=self._rows(images))

    def unlock(self, images: Sequence[str] | ArrayLike) -> Clustering:
        """Allow images to be moved again."""
        return self._apply("unlock", rows=self._rows(images))

    def preview_import(self, labels: Mapping[str, int | str] | StrPath) -> Corrections:
        """What ``import_labels`` would change."""
        return find_corrections(self.clustering, _labels(labels))

    def import_labels(self, labels: Mapping[str, int | str] | StrPath) -> Corrections:
        """Give images the labels of another tool, as one edit; nothing is written if all of them agree.

        See :func:`cgmcr2.clustering.corrections.find_corrections` for the rules.

        Parameters
        ----------
        labels : clusters by file name, or a CSV or JSON file of them: a table, or the export of COCO, FiftyOne or Label
            Studio. A name that no cluster has becomes a new cluster.
        """
        corrections = self.preview_import(labels)
        if corrections.edits:
            self.batch(corrections.edits)
        return corrections

    def undo(self) -> Clustering:
        """Undo the last edit that is in effect."""
        if not self.history.done:
            raise ValueError("There is no edit to undo.")
        return self._apply("undo")

    def redo(self) -> Clustering:
        """Apply the edit again that was undone last."""
        if not self.history.undone:
            raise ValueError("There is no edit to redo.")
        return self._apply("redo")

    def back(self, line: int) -> Clustering:
        """Return to the state after a line of the log; 0 is the fitted clustering."""
        if not 0 <= line <= len(self.log):
            raise ValueError(f"The log has lines 1 ... {len(self.log)}; {line} is none of them (0: before any edit).")
        return self._apply("back", line=line)

    def _apply(self, verb: str, **arguments: Any) -> Clustering:
        """Apply an edit, write it, and return the new clustering."""
        if self.read_only:
            raise ValueError(f"The edits of {self.run.path} were opened to be read only; open them with Edits(run).")
        time = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
        edit = Edit(verb, arguments, time, self.state)
        history = history_of([*self.log, edit])
        clustering = self._replay(history.done)
        self._write(edit.line().encode() + b"\n")
        self.log.append(edit)
        self.history = history
        self.clustering = clustering
        self._recent.append((history.done, clustering))
        return clustering

    def _replay(self, done: tuple[Edit, ...]) -> Clustering:
        """The clustering after the edits ``done``, from the nearest state that is still known."""
        states = [(edits, state) for edits, state in self._recent if done[: len(edits)] == edits]
        edits, state = max(states, key=lambda known: len(known[0]), default=((), self.fitted))
        return replay(state, done[len(edits) :])

    def _write(self, line: bytes) -> None:
        """Append a line and sync it; if that fails, remove what was written of it."""
        length = os.fstat(self._file.fileno()).st_size
        try:
            if self._file.write(line) < len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.run.edits))
            os.fsync(self._file.fileno())
        except OSError:
            self._file.truncate(length)
            raise

    def _plain(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Arguments of a verb as JSON values, with images as row numbers."""
        text = json.dumps(dict(arguments), default=lambda value: value.tolist())  # of NumPy arrays and scalars
        plain: dict[str, Any] = json.loads(text)
        if "rows" in plain:
            plain["rows"] = self._rows(plain["rows"])
        if "parts" in plain:
            plain["parts"] = [self._rows(part) for part in plain["parts"]]
        return plain

    def _number(self, cluster: int | str) -> int:
        return self.clustering.number(cluster)

    def _rows(self, images: Sequence[str] | ArrayLike) -> list[int]:
        """Row numbers of images, given by row or by file name."""
        if isinstance(images, str):
            images = [images]
        values = np.atleast_1d(np.asarray(images)).tolist()
        unknown = [value for value in values if isinstance(value, str) and value not in self._row]
        if unknown:
            raise ValueError(f"The run has no image {unknown[0]!r}; give a path as in the first column of labels.csv.")
        rows = (self._row[value] if isinstance(value, str) else value for value in values)
        return list(dict.fromkeys(rows))


def _labels(labels: Mapping[str, int | str] | StrPath) -> list[Label]:
    if not isinstance(labels, Mapping):
        return read_labels(Path(labels))
    return [
        Label(file, value) if isinstance(value, str) else Label(file, number=value) for file, value in labels.items()
    ]


def _rounded(values: ArrayLike | None) -> list[float] | None:
    return None if values is None else np.asarray(values, np.float64).round(4).tolist()
