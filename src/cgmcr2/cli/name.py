"""``cgmcr2 name``: suggest names for the clusters of a run, and rename them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from . import options
from .output import count, print_json

if TYPE_CHECKING:
    from cgmcr2.clustering import Clustering
    from cgmcr2.runs import RunFolder
    from cgmcr2.runs.names import Names

EPILOG = """\b
Examples:
  cgmcr2 name run
  cgmcr2 name run --apply
  cgmcr2 name run --vocabulary words.txt --apply
  cgmcr2 name run --reader clip-vit-b-32
  cgmcr2 name run --text-embeddings nouns.npz
  cgmcr2 name run --namer http://localhost:8080
"""


def name(
    run: options.Run,
    apply: Annotated[
        bool, typer.Option("--apply", help="Rename the clusters as suggested, as one edit that can be undone.")
    ] = False,
    rename_all: Annotated[
        bool, typer.Option("--all", help="Also rename clusters that have a name; otherwise it is kept.")
    ] = False,
    vocabulary: Annotated[
        Path | None,
        typer.Option(
            "--vocabulary",
            metavar="FILE",
            help="Words to choose from, one a line, with synonyms after bars.  [default: 2,200 common nouns]",
        ),
    ] = None,
    text: options.TextFile = None,
    reader: Annotated[
        str | None,
        typer.Option(
            "--reader",
            metavar="NAME",
            help="Encoder that reads text, if the run's does not; it looks at 25 images of each cluster.",
        ),
    ] = None,
    namer: Annotated[
        str | None,
        typer.Option(
            "--namer", metavar="URL", help="OpenAI-compatible server of a vision language model to ask instead."
        ),
    ] = None,
    namer_model: Annotated[
        str | None, typer.Option("--namer-model", metavar="NAME", help="Its model.  [default: the first it lists]")
    ] = None,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Send images to the server of --namer without asking.")
    ] = False,
    images: options.MovedImages = None,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
) -> None:
    """Suggest a name for each cluster of a run.

    The words that set the images of a cluster apart from the others, by an encoder that reads text, such as CLIP. The
    five best words of each cluster are kept in names.json in the run folder. Nothing is renamed without --apply.
    """
    from cgmcr2.runs import RunFolder
    from cgmcr2.runs.names import apply_names, suggest_run_names
    from cgmcr2.words import read_vocabulary

    if sum(value is not None for value in (text, reader, namer)) > 1:
        raise ValueError("--text-embeddings, --reader and --namer exclude each other; give one of them.")
    if vocabulary is not None and (text is not None or namer is not None):
        raise ValueError("--vocabulary needs an encoder that reads it; leave out --text-embeddings and --namer.")
    folder = RunFolder(run)
    if namer is not None:
        names = _ask(folder, namer, namer_model, images, rename_all, yes)
    else:
        names = suggest_run_names(
            folder,
            vocabulary=None if vocabulary is None else read_vocabulary(vocabulary),
            text=text,
            reader=reader,
            images=images,
            rename_all=rename_all,
        )
    clustering = folder.clustering
    if apply:
        apply_names(folder, names)
    if as_json:
        clusters = [
            {"cluster": s.cluster, "name": s.name, "fit": s.fit, "words": s.words, "reason": s.reason}
            for s in names.clusters
        ]
        print_json({"run": str(run), "reader": names.reader, "applied": apply, "clusters": clusters})
    elif not names.clusters:
        typer.echo("All clusters have names; name them again with --all.")
    else:
        _print(names, clustering)
        suggested = sum(suggestion.name is not None for suggestion in names.clusters)
        done = "renamed" if apply else "named; rename them with --apply"
        typer.echo(f"{count(suggested, 'cluster')} {done}. All words: {folder.path / 'names.json'}")


def _ask(folder: RunFolder, url: str, model: str | None, images: str | None, rename_all: bool, yes: bool) -> Names:
    from cgmcr2.runs.namer import Namer, ask_names
    from cgmcr2.runs.names import READER_IMAGES, clusters_to_name, image_catalog

    namer = Namer(url, model)
    image_catalog(folder, images)  # an error, if any, before the question
    sheets = len(clusters_to_name(folder.clustering, rename_all=rename_all))
    if not sheets:
        return ask_names(folder, namer, images=images)
    typer.echo(
        f"This sends {count(sheets, 'contact sheet')} with up to {READER_IMAGES} small images of a cluster each to "
        f"{namer.base}.",
        err=True,
    )
    if not yes and not typer.confirm("Send them?", err=True):
        raise typer.Exit(1)
    return ask_names(folder, namer, images=images, rename_all=rename_all)


def _print(names: Names, clustering: Clustering) -> None:
    sizes = clustering.sizes()
    rows = [("CLUSTER", "SIZE", "NAME", "FIT", "WORDS")]
    for suggestion in names.clusters:
        words = ", ".join(f"{word} {share:.2f}" for word, share in suggestion.words)
        rows.append(
            (
                clustering.names[suggestion.cluster],
                f"{sizes[suggestion.cluster]:,}",
                suggestion.name or "-",
                "" if suggestion.fit is None else f"{suggestion.fit:.0%}",
                f"{words} (no word fits: {suggestion.reason})" if suggestion.reason else words,
            )
        )
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    for row in rows:
        typer.echo("  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[4]]))
