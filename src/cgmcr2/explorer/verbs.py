"""The edits that a page may ask for, with the types of their arguments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec

from cgmcr2.runs.edits import Edits

Row = Annotated[int, msgspec.Meta(ge=0, lt=2**31)]
Rows = list[Row]


class _Arguments(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    pass


class _None(_Arguments):
    pass


class _Images(_Arguments):
    rows: Rows


class _Rename(_Arguments):
    cluster: int
    name: str


class _Merge(_Arguments):
    clusters: list[int]
    name: str | None = None


class _Split(_Arguments):
    cluster: int
    parts: list[Rows]
    names: list[str | None] | None = None


class _Move(_Images):
    cluster: int | str  # a name that an earlier edit of the batch has set


class _New(_Images):
    name: str | None = None


class _Reject(_Images):
    clusters: list[int]


class _Back(_Arguments):
    line: int


class _Batch(_Arguments):
    edits: list[tuple[str, dict[str, Any]]]


EDITS: dict[str, type[_Arguments]] = {
    "rename": _Rename,
    "merge": _Merge,
    "split": _Split,
    "move": _Move,
    "new": _New,
    "exclude": _Images,
    "reject": _Reject,
    "lock": _Images,
    "unlock": _Images,
}
VERBS: dict[str, type[_Arguments]] = {**EDITS, "batch": _Batch, "undo": _None, "redo": _None, "back": _Back}


def apply_edit(edits: Edits, verb: str, arguments: Mapping[str, Any]) -> None:
    """Apply an edit of a page; raise ``ValueError`` if its verb or arguments are not valid."""
    values = _checked(verb, arguments, VERBS)
    if verb == "batch":
        edits.batch([(name, _checked(name, nested, EDITS)) for name, nested in values["edits"]])
        return
    if "rows" in values:
        values["images"] = values.pop("rows")
    getattr(edits, verb)(**values)


def _checked(verb: str, arguments: Mapping[str, Any], verbs: Mapping[str, type[_Arguments]]) -> dict[str, Any]:
    if verb not in verbs:
        raise ValueError(f"There is no verb {verb[:40]!r}; choose from {', '.join(verbs)}.")
    try:
        values = msgspec.convert(arguments, verbs[verb])
    except msgspec.ValidationError as error:
        raise ValueError(f"The arguments of {verb} are not valid: {error}.") from None
    return {name: value for name, value in msgspec.structs.asdict(values).items() if value is not None}
