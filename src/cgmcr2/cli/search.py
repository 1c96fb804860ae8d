"""``cgmcr2 search``: find images of a run by text, by an image, or by a row."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from . import options
from .output import count, print_json

EPILOG = """\b
Examples:
  cgmcr2 search run "a red car at night"
  cgmcr2 search run --image photo.jpg -n 50
  cgmcr2 search run --row IMG_1.jpg
  cgmcr2 search run "birthday cake" -n 30 --to-cluster birthdays
"""


def search(
    run: options.Run,
    query: Annotated[
        str | None, typer.Argument(metavar="TEXT", help="What the images show; the run's encoder must read text.")
    ] = None,
    image: Annotated[
        Path | None, typer.Option("--image", metavar="FILE", help="Image to find similar ones of.")
    ] = None,
    row: Annotated[
        str | None,
        typer.Option("--row", metavar="IMAGE", help="Image of the run, as in the first column of labels.csv."),
    ] = None,
    number: Annotated[int, typer.Option("-n", "--number", metavar="N", min=1, help="Number of images.")] = 20,
    text: options.TextFile = None,
    to_cluster: Annotated[
        str | None,
        typer.Option(
            "--to-cluster",
            metavar="NAME",
            help="Move the images to this cluster, as an edit; a new one if there is none.",
        ),
    ] = None,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
) -> None:
    """Search the images of a run by text or by image.

    Prints the cosine similarity, the cluster and the file of the most similar images. The search is exact and needs
    little memory.
    """
    from cgmcr2.runs import RunFolder
    from cgmcr2.runs.search import results_to_cluster, search_run

    folder = RunFolder(run)
    result = search_run(folder, query, image=image, row=row, text=text, count=number)
    clustering = folder.clustering
    moved = 0 if to_cluster is None else results_to_cluster(folder, result, to_cluster)
    results = [
        (clustering.ids[index], clustering.names[clustering.labels[index]], round(float(similarity), 4))
        for index, similarity in zip(result.rows, result.similarities, strict=True)
    ]
    if as_json:
        keys = ("path", "cluster", "similarity")
        print_json({"run": str(run), "images": [dict(zip(keys, values, strict=True)) for values in results]})
        return
    width = max((len(cluster) for _, cluster, _ in results), default=0)
    for path, cluster, similarity in results:
        typer.echo(f"{similarity:.3f}  {cluster.ljust(width)}  {path}")
    if to_cluster is not None:
        typer.echo(f"{count(moved, 'image')} moved to {to_cluster!r}; undo it with: cgmcr2 edit {run} undo")
