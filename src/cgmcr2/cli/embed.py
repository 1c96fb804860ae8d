"""``cgmcr2 embed``: from images to a feature store."""

from __future__ import annotations

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
"""


def embed(
    source: options.Images,
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="DIR", help="Feature store; an existing one is updated.")
    ],
    encoder: options.Encoder = "bundled",
    batch_size: Annotated[
        int | None, typer.Option("--batch-size", metavar="N", help="Images per batch.  [default: automatic]")
    ] = None,
    workers: Annotated[
        int | None, typer.Option("--workers", metavar="N", help="Decoding threads.  [default: number of cores]")
    ] = None,
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

    Only new and changed images are computed. An interrupted command is resumed.
    """
    from cgmcr2.datasets import open_images, save_labels
    from cgmcr2.encoders import load_encoder
    from cgmcr2.features import extract

    catalog, dataset = open_images(source, data, download=download, exclude=[output])
    model = load_encoder(encoder)
    start = time.perf_counter()
    store = extract(
        catalog,
        model,
        output,
        batch_size="auto" if batch_size is None else batch_size,
        num_workers=workers,
        dtype=dtype,
        progress=not quiet,
    )
    rate = store.added / (time.perf_counter() - start)
    if dataset:
        save_labels(store, dataset)
    errors = output / "errors.csv"
    if store.errors:
        store.write_errors_csv(errors)
    else:
        errors.unlink(missing_ok=True)
    if as_json:
        values = {"store": str(output), "encoder": model.name, "dim": store.shape[1], "rows": len(store)}
        print_json({**values, "added": store.added, "unreadable": len(store.errors), "images_per_second": rate})
        return
    speed = f", {rate:.0f} images/s" if store.added else ""
    typer.echo(f"{count(len(store), 'image')}, {store.added:,} new{speed}: {output}")
    if store.errors:
        typer.echo(f"{count(len(store.errors), 'file')} could not be read: {errors}")
