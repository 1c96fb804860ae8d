"""``cgmcr2 predict``: cluster new images or features with a trained model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from . import options
from .output import cluster_values, count, print_json

EPILOG = """\b
Examples:
  cgmcr2 predict run new-photos -o new.csv
  cgmcr2 predict run features.npz --part test -o test.csv
"""


def predict(
    run: options.Run,
    source: options.ImagesOrFeatures,
    output: Annotated[Path, typer.Option("-o", "--output", metavar="FILE", help="CSV file to write.")] = Path(
        "labels.csv"
    ),
    part: options.Part = "all",
    device: options.Device = "auto",
    as_json: options.Json = False,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
) -> None:
    """Assign new images or rows to the clusters of a run.

    Writes the cluster, its name, the confidence, the margin and the outlier score of each. Prediction is deterministic.
    """
    from cgmcr2._files import replacing
    from cgmcr2.clustering import write_csv
    from cgmcr2.features.sources import is_features
    from cgmcr2.runs import Predictor

    predictor = Predictor(run, device=device)
    if is_features(source):
        clustering = predictor.predict_features(source, part=part)
    else:
        clustering = predictor.predict_images(source, progress=not quiet)
    with replacing(output) as temporary:
        write_csv(temporary, clustering.records())
    if as_json:
        print_json({"labels": str(output), "rows": len(clustering), "clusters": cluster_values(clustering)})
    else:
        typer.echo(f"{count(len(clustering), 'label')}: {output}")
