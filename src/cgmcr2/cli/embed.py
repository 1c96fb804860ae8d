"""``cgmcr2 embed``: images in, feature store out."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from . import options


def embed(
    source: options.Images,
    output: Annotated[Path, typer.Option("-o", "--output", help="The feature store to make (or to go on with).")],
    encoder: Annotated[str, typer.Option("--encoder", help="What turns an image into numbers.")] = "bundled",
    batch_size: Annotated[
        int | None, typer.Option("--batch-size", help="Images at a time.  [default: found by itself]")
    ] = None,
    workers: Annotated[
        int | None, typer.Option("--workers", help="Threads that decode.  [default: one a core]")
    ] = None,
    dtype: Annotated[
        str | None, typer.Option("--dtype", help="On disk: float32, or float16 for half the size.  [default: float32]")
    ] = None,
    data: options.Data = None,
    download: options.Download = False,
    quiet: options.Quiet = False,
) -> None:
    """Turn images into features; only what is new or changed is computed, also after an interruption."""
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
    if dataset:
        save_labels(store, dataset)
    rate = f" at {store.added / (time.perf_counter() - start):.0f} images/s" if store.added else ""
    typer.echo(f"{len(store):,} images, {store.added:,} of them embedded now{rate}: {output}")
    errors = output / "errors.csv"
    if store.errors:
        store.write_errors_csv(errors)
        typer.echo(f"{len(store.errors):,} could not be read, with the reasons: {errors}")
    else:
        errors.unlink(missing_ok=True)
