"""``cgmcr2 predict``: labels for rows that training has not seen."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from . import options


def predict(
    run: Annotated[Path, typer.Argument(help="The folder of a finished run.")],
    features: Annotated[Path, typer.Argument(help="A feature file or store.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="The table to write.")] = Path("labels.csv"),
    part: Annotated[str, typer.Option(help="Rows to label where the file has a split: train, test or all.")] = "all",
    device: options.Device = "auto",
) -> None:
    """Give each row its cluster, with confidence and margin; the same rows always get the same answer."""
    from cgmcr2._files import replacing
    from cgmcr2.clustering import write_csv
    from cgmcr2.run import open_run

    opened = open_run(run, device=device)
    clustering = opened.predict_features(features, part=part)
    with replacing(output) as temporary:
        write_csv(temporary, clustering.records())
    typer.echo(f"{len(clustering.ids):,} rows labelled: {output}")
