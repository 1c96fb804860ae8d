"""``cgmcr2 predict``: labels for images or features that training has not seen."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from . import options


def predict(
    run: Annotated[Path, typer.Argument(help="The folder of a finished run.")],
    source: Annotated[Path, typer.Argument(help="Images (as for cluster), a feature file or a feature store.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="The table to write.")] = Path("labels.csv"),
    part: Annotated[str, typer.Option(help="Rows of a feature file with a split: train, test or all.")] = "all",
    device: options.Device = "auto",
    quiet: options.Quiet = False,
) -> None:
    """Give each image or row its cluster, with confidence and margin; the same rows always get the same answer."""
    from cgmcr2._files import replacing
    from cgmcr2.clustering import write_csv
    from cgmcr2.features.sources import is_features
    from cgmcr2.runs import open_run, predict_images

    opened = open_run(run, device=device)
    if is_features(source):
        clustering = opened.predict_features(source, part=part)
    else:
        clustering = predict_images(opened, source, progress=not quiet)
    with replacing(output) as temporary:
        write_csv(temporary, clustering.records())
    typer.echo(f"{len(clustering.ids):,} labelled: {output}")
