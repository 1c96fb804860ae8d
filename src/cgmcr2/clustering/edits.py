"""The log of edits, ``edits.jsonl``: one line per edit, replayed over the fitted clustering.

The current clustering is always the replay of the whole log, and the fitted files are never changed. ``undo``,
``redo`` and ``back`` are lines, too. Each line names the state that it applies to, a hash of the fitted labels and of
all earlier lines, so a log cannot be replayed over other labels or in another order. After a refit, the log continues
from the new labels.
"""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .clustering import Clustering
from .draft import VERBS, Draft

FILE_NAME = "edits.jsonl"
HISTORY_VERBS = ("undo", "redo", "back")
BASE_PREFIX = "fit-"
MAX_DESCRIBED = 4  # edits of a batch that its description lists


class Edit(NamedTuple):
    """A line of the log."""

    verb: str
    arguments: dict[str, Any]  # of the verb's method of ``Clustering``; rows are numbers
    time: str  # ISO 8601, UTC
    state: str  # hash of the state that the edit applies to

    def line(self) -> str:
        """The edit as JSON, without a line break."""
        return json.dumps(self._asdict(), ensure_ascii=False, separators=(",", ":"))


def describe(edit: Edit) -> str:
    """An edit in words.

    >>> describe(Edit("move", {"rows": [3, 4], "cluster": 1}, "", "")), describe(Edit("undo", {}, "", ""))
    ('move 2 images to cluster 1', 'undo')
    """
    values = edit.arguments
    images = f"{len(values['rows']):,} image{'s' if len(values['rows']) > 1 else ''}" if "rows" in values else ""
    called = f", called {values['name']!r}" if values.get("name") else ""
    if edit.verb == "rename":
        return f"rename cluster {values['cluster']} to {values['name']!r}"
    if edit.verb == "merge":
        return f"merge clusters {', '.join(map(str, values['clusters']))}{called}"
    if edit.verb == "split":
        return f"split cluster {values['cluster']} into {len(values['parts']) + 1}"
    if edit.verb == "back":
        return f"go back to line {values['line']}"
    if edit.verb == "move":
        return f"move {images} to cluster {values['cluster']}"
    if edit.verb == "reject":
        return f"reject cluster {' and '.join(map(str, values['clusters']))} for {images}"
    if edit.verb == "refine":
        return f"refine {images}"
    if edit.verb == "batch":
        parts = [describe(Edit(verb, arguments, "", "")) for verb, arguments in values["edits"][:MAX_DESCRIBED]]
        more = len(values["edits"]) - len(parts)
        return "; ".join(parts) + (f"; and {more} more" if more else "")
    if edit.verb == "new":
        return f"make a new cluster of {images}{called}"
    return f"{edit.verb} {images}".strip()


class History(NamedTuple):
    """The edits in effect, oldest first, and those that ``redo`` would apply, next one first."""

    done: tuple[Edit, ...] = ()
    undone: tuple[Edit, ...] = ()


def base_state(fitted: Clustering) -> str:
    """Hash of the fitted clustering, the state before the first edit; the prefix marks the first edit of a fit."""
    digest = hashlib.sha256(fitted.labels.tobytes())
    digest.update(json.dumps([fitted.names, fitted.ids], ensure_ascii=True).encode())
    return f"{BASE_PREFIX}{digest.hexdigest()[:16]}"


def next_state(edit: Edit) -> str:
    """Hash of the state after ``edit``."""
    return hashlib.sha256(edit.line().encode()).hexdigest()[:16]


def read_edits(path: Path, fitted: Clustering) -> tuple[list[Edit], int]:
    """The edits of ``fitted`` in the log at ``path``, and the length in bytes of all complete lines.

    A last line without a line break was torn by a crash before it was acknowledged; it is ignored. Edits of other
    labels, before the run was refitted or repaired, are ignored as well, with a warning if there are no newer ones.
    """
    content = path.read_bytes() if path.is_file() else b""
    content = content[: content.rfind(b"\n") + 1]
    edits: list[Edit] = []
    base, state, current = base_state(fitted), "", False
    for number, line in enumerate(content.splitlines(), start=1):
        try:
            edit = Edit(**json.loads(line))
            if edit.verb not in (*VERBS, *HISTORY_VERBS):
                raise ValueError(edit.verb)
        except (ValueError, TypeError):
            raise ValueError(f"Line {number} of {path} is damaged; restore the file from a backup.") from None
        if edit.state.startswith(BASE_PREFIX):
            edits, current = [], edit.state == base
        elif current and edit.state != state:
            raise ValueError(f"Line {number} of {path} does not follow line {number - 1}; restore the file.")
        if current:
            edits.append(edit)
        state = next_state(edit)
    if content and not edits:
        warnings.warn(
            f"The edits in {path} have no effect, because a refit or a repair has changed the fitted labels; "
            "the file is kept, and new edits are added to it.",
            stacklevel=1,  # shown once, whoever reads the edits
        )
    return edits, len(content)


def history_of(edits: Sequence[Edit]) -> History:
    """The history after all ``edits`` of the log.

    >>> a, b, undo = (Edit(verb, {}, "", "") for verb in ("rename", "merge", "undo"))
    >>> history_of([a, b, undo]) == ((a,), (b,))
    True
    """
    returns = {int(edit.arguments["line"]) for edit in edits if edit.verb == "back"}
    states = {0: History()}  # after the lines that a later one goes back to
    done: list[Edit] = []
    undone: list[Edit] = []  # the next one to redo comes last
    for line, edit in enumerate(edits, start=1):
        if edit.verb == "undo":
            undone.append(done.pop())
        elif edit.verb == "redo":
            done.append(undone.pop())
        elif edit.verb == "back":
            state = states[int(edit.arguments["line"])]
            done, undone = list(state.done), list(reversed(state.undone))
        else:
            done.append(edit)
            undone.clear()
        if line in returns:
            states[line] = History(tuple(done), tuple(reversed(undone)))
    return History(tuple(done), tuple(reversed(undone)))


def flatten(edits: Sequence[Edit]) -> list[tuple[str, dict[str, Any]]]:
    """The verb and arguments of each edit, with those of a batch in its place.

    >>> batch = Edit("batch", {"edits": [["lock", {"rows": [1]}], ["merge", {"clusters": [0, 1]}]]}, "", "")
    >>> flatten([batch, Edit("exclude", {"rows": [0]}, "", "")])
    [('lock', {'rows': [1]}), ('merge', {'clusters': [0, 1]}), ('exclude', {'rows': [0]})]
    """
    return [
        (verb, arguments)
        for edit in edits
        for verb, arguments in (edit.arguments["edits"] if edit.verb == "batch" else [(edit.verb, edit.arguments)])
    ]


def replay(fitted: Clustering, edits: Sequence[Edit]) -> Clustering:
    """``fitted`` after ``edits`` that are in effect."""
    if not edits:
        return fitted
    draft = Draft.of(fitted)
    for edit in edits:
        draft.apply(edit.verb, edit.arguments)
    return fitted.edited(draft)


def cluster_targets(fitted: Clustering, edited: Clustering) -> NDArray[np.int64]:
    """(k,) the cluster that most images of each fitted cluster are in after the edits.

    >>> fitted = Clustering(["a", "b", "c"], [0, 1, 1])
    >>> cluster_targets(fitted, fitted.merge([1, 0]))
    array([1, 1])
    """
    targets = np.arange(fitted.n_clusters)
    for cluster in range(fitted.n_clusters):
        current = edited.labels[fitted.rows(cluster)]
        targets[cluster] = np.bincount(current).argmax() if len(current) else edited.merged.get(cluster, cluster)
    return targets


def moves_images(fitted: Clustering, edited: Clustering) -> bool:
    """Whether edits have moved images or added clusters, so that the levels of ``fitted`` do not fit ``edited``.

    >>> c = Clustering(["a", "b"], [0, 1])
    >>> moves_images(c, c.rename(0, "cats")), moves_images(c, c.merge([0, 1]))
    (False, True)
    """
    return edited.n_clusters != fitted.n_clusters or not np.array_equal(edited.labels, fitted.labels)


def check_unmoved(fitted: Clustering, edited: Clustering) -> None:
    """Raise ``ValueError`` if edits have moved images."""
    if moves_images(fitted, edited):
        raise ValueError("Levels are those of the fitted clusters, but edits have moved images; leave out the edits.")


def load_history(folder: Path, fitted: Clustering) -> History:
    """The edits of ``fitted`` in ``folder`` that are in effect, and those that were undone."""
    return history_of(read_edits(folder / FILE_NAME, fitted)[0])


def load_edited(folder: Path, fitted: Clustering) -> Clustering:
    """``fitted`` after the edits in ``folder``."""
    return replay(fitted, load_history(folder, fitted).done)
