"""``cgmcr2 choose-k``: how many clusters the data has, and how clear that is."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from . import options


def choose_k(
    source: Annotated[Path, typer.Argument(help="Images (as for cluster), a feature file or a feature store.")],
    output: Annotated[
        Path | None,
        typer.Option(
            "-o", "--output", help="A folder for the answer (choice.json); images need it for their features."
        ),
    ] = None,
    most: Annotated[
        int | None, typer.Option("--most", help="Look for at most so many.  [default: 300, or one in 5 rows]")
    ] = None,
    encoder: Annotated[str, typer.Option("--encoder", help="What turns an image into numbers.")] = "bundled",
    part: Annotated[str, typer.Option(help="Rows of a feature file with a split: train, test or all.")] = "train",
    seed: Annotated[int, typer.Option("--seed", help="Same seed, same answer.")] = 0,
    quiet: options.Quiet = False,
) -> None:
    """Look for the number of clusters, without training: the curve, the best number, and those that come next.

    A run can be made into the same folder afterwards: the features of images are not computed again.
    """
    from cgmcr2.runs import choose_clusters

    choice = choose_clusters(source, output, most=most, encoder=encoder, part=part, seed=seed, progress=not quiet)
    typer.echo(choice.picture())
    typer.echo(choice.verdict)
    if choice.runners_up:
        typer.echo(f"Other numbers worth a look: {', '.join(map(str, choice.runners_up))}.")
    if output:
        typer.echo(f"Kept in {output / 'choice.json'}; to go on: -k {choice.chosen} -o {output}")
