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
  cgmcr2 predict run new-photos --no-cache -o new.csv
  cgmcr2 predict run features.npz --part test -o test.csv
  cgmcr2 predict run new-photos --level 7 -o coarse.csv
  cgmcr2 predict run new-photos --engine ray --address auto -o new.csv
"""


def predict(
    run: options.Run,
    source: options.ImagesOrFeatures,
    output: Annotated[Path, typer.Option("-o", "--output", metavar="FILE", help="CSV file to write.")] = Path(
        "predictions.csv"
    ),
    part: options.Part = "all",
    level: options.Level = None,
    cache: Annotated[
        Path | None,
        typer.Option("--cache", metavar="DIR", help="Folder that keeps the features.  [default: user's cache folder]"),
    ] = None,
    use_cache: Annotated[bool, typer.Option("--use-cache/--no-cache", help="Keep the features of the images.")] = True,
    retry_errors: options.RetryErrors = False,
    engine: options.Engine = "local",
    address: options.Address = None,
    workers: options.Workers = None,
    edits: options.WithEdits = True,
    device: options.Device = "auto",
    as_json: options.Json = False,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
) -> None:
    """Assign new images or rows to the clusters of a run.

    Writes one row per input with the cluster, its name, the confidence, the margin and the outlier score, or the reason
    why the file could not be read. Prediction is deterministic. A run with -k auto answers at any --level.
    """
    from cgmcr2.features.sources import is_features
    from cgmcr2.runs import Predictor, RunFolder

    if output.parent.resolve() == run.resolve():
        raise ValueError(f"{output} would be a file of the run folder itself; write the predictions elsewhere with -o.")
    predictor = Predictor(RunFolder(run, with_edits=edits), device=device, level=level)
    if is_features(source):
        prediction = predictor.predict_features(source, part=part)
    else:
        prediction = predictor.predict_images(
            source,
            cache=cache,
            use_cache=use_cache,
            progress=not quiet,
            retry_errors=retry_errors,
            engine=engine,
            address=address,
            num_workers=workers,
        )
    prediction.write(output)
    clustering, errors = prediction
    if as_json:
        values = {"labels": str(output), "rows": len(clustering), "unreadable": len(errors)}
        print_json({**values, "clusters": cluster_values(clustering)})
        return
    typer.echo(f"{count(len(clustering), 'label')}: {output}")
    if errors:
        typer.echo(f"{count(len(errors), 'file')} could not be read; see the column error.")
