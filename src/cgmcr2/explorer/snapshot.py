"""The current state of the edits as the page reads it."""

from __future__ import annotations

import dataclasses
from typing import Any

from cgmcr2.clustering import Clustering
from cgmcr2.clustering.edits import HISTORY_VERBS, describe
from cgmcr2.page import cluster_entries, row_values
from cgmcr2.runs.edits import Edits


@dataclasses.dataclass(frozen=True)
class Snapshot:
    """A state of the edits."""

    state: str  # hash
    clustering: Clustering
    values: dict[str, Any]  # the part of the page's state that edits change
    rows: bytes  # values of all rows, see :func:`cgmcr2.page.row_values`

    @classmethod
    def of(cls, edits: Edits) -> Snapshot:
        """The current state of ``edits``."""
        clustering, state = edits.clustering, edits.state
        values = {
            "state": state,
            "clusters": cluster_entries(clustering),
            "names": clustering.names,
            "excluded": clustering.excluded,
            "reviewed": int(clustering.locked.sum()),
            "history": history_values(edits),
        }
        return cls(state, clustering, values, row_values(clustering))


def history_values(edits: Edits) -> dict[str, Any]:
    """The log in words, and whether there is anything to undo or redo."""
    in_effect = {id(edit) for edit in edits.history.done}
    log = [
        {
            "line": line,
            "time": edit.time,
            "text": describe(edit),
            "undone": id(edit) not in in_effect and edit.verb not in HISTORY_VERBS,
        }
        for line, edit in enumerate(edits.log, start=1)
    ]
    return {"log": log, "can_undo": bool(edits.history.done), "can_redo": bool(edits.history.undone)}
