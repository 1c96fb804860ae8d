"""``cgmcr2 edit``: rename, merge and split the clusters of a run, move images, and undo edits."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from . import options
from .output import cluster_values, count, print_json

if TYPE_CHECKING:
    from cgmcr2.runs import Edits

Values = list[str]

# The arguments of each verb, as the help shows them, and its call.
CALLS: dict[str, tuple[str, Callable[[Edits, Values], Any]]] = {
    "rename": ("CLUSTER NAME", lambda edits, values: edits.rename(_cluster(edits, values[0]), values[1])),
    "merge": ("CLUSTER CLUSTER...", lambda edits, values: edits.merge([_cluster(edits, value) for value in values])),
    "split": ("CLUSTER [PARTS]", lambda edits, values: edits.split(_cluster(edits, values[0]), _parts(values))),
    "move": ("CLUSTER IMAGE...", lambda edits, values: edits.move(values[1:], _cluster(edits, values[0]))),
    "new": ("NAME IMAGE...", lambda edits, values: edits.new(values[1:], values[0])),
    "exclude": ("IMAGE...", lambda edits, values: edits.exclude(values)),
    "reject": ("CLUSTER IMAGE...", lambda edits, values: edits.reject(values[1:], [_cluster(edits, values[0])])),
    "lock": ("IMAGE...", lambda edits, values: edits.lock(values)),
    "unlock": ("IMAGE...", lambda edits, values: edits.unlock(values)),
    "undo": ("", lambda edits, values: edits.undo()),
    "redo": ("", lambda edits, values: edits.redo()),
    "back": ("LINE", lambda edits, values: edits.back(_integer(values[0], "line of the log"))),
    "log": ("", lambda edits, values: None),
    "clusters": ("", lambda edits, values: None),
}
VERBS = "\n".join(f"  {verb} {usage}".rstrip() for verb, (usage, _) in CALLS.items())
EPILOG = f"""\b
Verbs:
{VERBS}

\b
Examples:
  cgmcr2 edit run rename 3 dogs
  cgmcr2 edit run merge dogs 5
  cgmcr2 edit run split 2 3 --preview
  cgmcr2 edit run move dogs IMG_1.jpg IMG_2.jpg
  cgmcr2 edit run undo
"""


def edit(
    run: options.Run,
    verb: Annotated[str, typer.Argument(metavar="VERB", help="What to do; see below.")],
    values: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="ARGUMENTS", help="Clusters by number or name; images as in the first column of labels.csv."
        ),
    ] = None,
    preview: Annotated[bool, typer.Option("--preview", help="Show what split would do, and change nothing.")] = False,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
) -> None:
    """Edit the clusters of a run.

    Edits are kept in edits.jsonl in the run folder. The fitted labels are not changed, and every edit can be undone.
    predict, export, report and evaluate use the edited clusters; report.html is updated by cgmcr2 report.
    """
    from cgmcr2.clustering.edits import describe
    from cgmcr2.runs import Edits

    given = values or []
    if verb not in CALLS:
        raise ValueError(f"There is no verb {verb!r}; choose from {', '.join(CALLS)}.")
    usage, call = CALLS[verb]
    words = usage.split()
    required = sum(not word.startswith("[") for word in words)
    if len(given) < required or (len(given) > len(words) and not usage.endswith("...")):
        use = f"cgmcr2 edit RUN {verb} {usage}".rstrip()
        raise ValueError(f"{verb} was given {count(len(given), 'argument')}; use: {use}.")
    with Edits(run, read_only=preview or verb in ("log", "clusters")) as edits:
        if preview:
            if verb != "split":
                raise ValueError("--preview shows the parts of a split; use it with split.")
            _print_preview(edits, _cluster(edits, given[0]), _parts(given), as_json=as_json)
            return
        call(edits, given)
        clustering, log, in_effect = edits.clustering, edits.log, edits.history.done
    if as_json:
        lines = [{"line": number, **edit._asdict()} for number, edit in enumerate(log, start=1)]
        print_json({"run": str(run), "clusters": cluster_values(clustering), "edits": lines})
    elif verb == "log":
        for number, line in enumerate(log, start=1):
            undone = "" if line in in_effect or line.verb in ("undo", "redo", "back") else "  (undone)"
            typer.echo(f"{number:4}  {line.time}  {describe(line)}{undone}")
    elif verb == "clusters":
        for cluster in cluster_values(clustering):
            typer.echo(f"{cluster['cluster']:4}  {cluster['size']:7,}  {cluster['name']}")
    else:
        done = describe(log[-1])
        typer.echo(f"{done[0].upper()}{done[1:]}: {count(len(clustering.clusters), 'cluster')} now")


def _print_preview(edits: Edits, cluster: int | str, m: int, *, as_json: bool) -> None:
    parts = edits.preview_split(cluster, m)
    moved = {row for part in parts for row in part}
    rest = [row for row in edits.clustering.rows(cluster).tolist() if row not in moved]
    if as_json:
        print_json({"parts": [[edits.fitted.ids[row] for row in part] for part in (rest, *parts)]})
        return
    for number, part in enumerate((rest, *parts), start=1):
        examples = ", ".join(edits.fitted.ids[row] for row in part[:5])
        typer.echo(f"Part {number}: {count(len(part), 'image')}, such as {examples}")


def _cluster(edits: Edits, text: str) -> int | str:
    """A cluster by number, or else by name, which may be a number such as 2024."""
    if text.isdecimal() and (int(text) < edits.clustering.n_clusters or text not in edits.clustering.names):
        return int(text)
    return text


def _parts(values: Values) -> int:
    return _integer(values[1], "number of parts") if len(values) > 1 else 2


def _integer(text: str, noun: str) -> int:
    if not text.isdecimal():
        raise ValueError(f"{text!r} is not a {noun}; give an integer.")
    return int(text)
