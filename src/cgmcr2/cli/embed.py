"""``cgmcr2 embed``: from images to a feature store."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Annotated

import typer

from . import choices, options
from .choices import metavar
from .output import count, print_json

EPILOG = """\b
Examples:
  cgmcr2 embed photos -o store
  cgmcr2 embed photos.zip --encoder dinov2-small --dtype float16 -o store
  cgmcr2 embed cifar10 --data DIR --download -o store
  cgmcr2 embed photos -o store --engine ray --address auto
  cgmcr2 embed photos -o store --shards 0-99
"""


def _parse_shards(text: str) -> range:
    """Return the numbers of a range such as ``3-5``.

    >>> list(_parse_shards("3-5")), list(_parse_shards("7"))
    ([3, 4, 5], [7])
    """
    if not (match := re.fullmatch(r"(\d+)(?:-(\d+))?", text)):
        raise typer.BadParameter(f"{text!r} is neither a number nor a range such as 0-99.")
    numbers = range(int(match[1]), int(match[2] or match[1]) + 1)
    if not numbers:
        raise typer.BadParameter(f"{text!r} is empty; give the smaller number first.")
    return numbers


def embed(
    source: options.Images,
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="DIR", help="Feature store; an existing one is updated.")
    ],
    encoder: options.Encoder = None,
    views: options.Views = None,
    batch_size: Annotated[
        int | None, typer.Option("--batch-size", metavar="N", help="Images per batch.  [default: automatic]")
    ] = None,
    workers: options.Workers = None,
    engine: options.Engine = "local",
    address: options.Address = None,
    shards: Annotated[
        range | None,
        typer.Option(
            "--shards",
            metavar="FIRST-LAST",
            parser=_parse_shards,
            help="Shards to compute, to share the work among several commands.  [default: all]",
        ),
    ] = None,
    shard_size: Annotated[
        int | None,
        typer.Option("--shard-size", metavar="N", min=1, help="Images per shard of a new store.  [default: automatic]"),
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Compute the shards again, although they exist.")
    ] = False,
    retry_errors: options.RetryErrors = False,
    dtype: Annotated[
        choices.StoredType | None,
        typer.Option(
            "--dtype", metavar=metavar(choices.StoredType), help="Type of the stored features.  [default: float32]"
        ),
    ] = None,
    data: options.Data = None,
    download: options.Download = False,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
) -> None:
    """Compute the features of images.

    Only new and changed images are computed. Repeat an interrupted command to resume it. Unreadable images keep their
    reason in errors.csv.
    """
    from cgmcr2.datasets import open_images, save_labels
    from cgmcr2.encoders import load_encoder
    from cgmcr2.features import extract

    catalog, dataset = open_images(source, data, download=download, exclude=[output])
    model = load_encoder(options.encoder_name(encoder, views))
    start = time.perf_counter()
    store = extract(
        catalog,
        model,
        output,
        batch_size="auto" if batch_size is None else batch_size,
        shard_size=shard_size,
        num_workers=workers,
        dtype=dtype,
        progress=not quiet,
        shards=shards,
        overwrite=overwrite,
        retry_errors=retry_errors,
        engine=engine,
        address=address,
    )
    rate = store.added / (time.perf_counter() - start)
    complete = store.manifest.catalog == catalog.fingerprint
    if dataset and complete:
        save_labels(store, dataset)
    errors = output / "errors.csv"
    if store.errors:
        store.write_errors_csv(errors)
    else:
        errors.unlink(missing_ok=True)
    if as_json:
        values = {"store": str(output), "encoder": model.name, "dim": store.shape[1], "rows": len(store)}
        values |= {"complete": complete, "added": store.added, "unreadable": len(store.errors)}
        print_json({**values, "images_per_second": rate})
        return
    speed = f", {rate:.0f} images/s" if store.added else ""
    typer.echo(f"{count(len(store), 'image')}, {store.added:,} new{speed}: {output}")
    if store.errors:
        typer.echo(f"{count(len(store.errors), 'file')} could not be read: {errors}")
    if not complete:
        missing = len(catalog) + len(catalog.errors) - len(store) - len(store.errors)
        typer.echo(f"The store is unfinished: {count(missing, 'image')} of other shards missing.")
