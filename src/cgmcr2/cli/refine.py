"""``cgmcr2 refine``: learn from the edits of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from . import options
from .output import count, print_json

if TYPE_CHECKING:
    from cgmcr2.runs import Refinement

EPILOG = """\b
Examples:
  cgmcr2 refine run
  cgmcr2 refine run --preview
  cgmcr2 refine run --yes
"""


def refine(
    run: options.Run,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Move the images without asking.")] = False,
    preview: Annotated[bool, typer.Option("--preview", help="Show what would change, and change nothing.")] = False,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
) -> None:
    """Learn from the edits of a run: other images follow.

    Images that were moved, locked or rejected, and clusters that were merged or split, are constraints. Locked images
    never move. The result is one edit, which cgmcr2 edit RUN undo takes back; until then, predict uses the refined
    model. With --json and without --yes, nothing is changed.
    """
    from cgmcr2.runs import Edits, Refiner

    if yes and preview:
        raise ValueError("--yes moves the images and --preview does not; give one of them.")
    with Edits(run, read_only=preview) as edits:
        refinement = Refiner(edits).refine()
        if not as_json:
            _print_moves(refinement)
        ask = not (yes or preview or as_json) and len(refinement.rows) > 0
        accepted = yes or (ask and typer.confirm("Move them?"))
        if accepted:
            refinement.accept()
    if as_json:
        ids = refinement.clustering.ids
        moves = [
            {"from": move.origin, "to": move.target, "images": [ids[row] for row in move.rows.tolist()]}
            for move in refinement.moves
        ]
        print_json({"run": str(run), "accepted": accepted, "changed": len(refinement.rows), "moves": moves})
    elif accepted and len(refinement.rows):
        typer.echo(f"Moved {count(len(refinement.rows), 'image')}; undo with: cgmcr2 edit {run} undo")


def _print_moves(refinement: Refinement) -> None:
    """Print how many images would move from where to where, with an example of each."""
    names, ids = refinement.clustering.names, refinement.clustering.ids
    if not len(refinement.rows):
        typer.echo("No image would move.")
        return
    typer.echo(f"{count(len(refinement.rows), 'image')} would move:")
    for move in refinement.moves:
        example = ids[int(move.rows[0])]
        typer.echo(f"{len(move.rows):7,}  {names[move.origin]} -> {names[move.target]}, such as {example}")
