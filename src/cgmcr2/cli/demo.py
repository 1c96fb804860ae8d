"""``cgmcr2 demo``: cluster handwritten digits and compare with their labels."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from . import options
from .output import print_json

if TYPE_CHECKING:
    from cgmcr2.evaluation import Scores

logger = logging.getLogger(__name__)

EPILOG = """\b
Examples:
  cgmcr2 demo
  cgmcr2 demo --seed 1 -o demo-1
"""
DEFAULT_SEED = 0
MIN_ACCURACY = 0.85  # with the default seed; a lower accuracy means that the method or the installation is broken


def demo(
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="DIR", help="Folder for the images and the run.")
    ] = Path("demo-run"),
    seed: options.Seed = DEFAULT_SEED,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
) -> None:
    """Cluster 1,797 handwritten digits and compare with k-means.

    The exit code is 1 if the accuracy with the default seed is lower than expected.
    """
    from sklearn.cluster import KMeans
    from sklearn.datasets import load_digits
    from sklearn.preprocessing import normalize

    from cgmcr2.evaluation import score_labels
    from cgmcr2.features import FeatureStore
    from cgmcr2.pipeline import cluster_images

    images, run = output / "images", output / "run"
    pixels, classes = load_digits(return_X_y=True)
    logger.info("1. Writing %s images of handwritten digits: %s", f"{len(pixels):,}", images)
    _write_images(pixels, images)

    logger.info("2. Embedding the images and finding 10 clusters, without the labels")
    result = cluster_images(images, 10, run, random_state=seed, progress=not quiet)

    logger.info("3. Comparing the clusters with the labels")
    labels = classes[[int(Path(id).stem) for id in result.clustering.ids]]
    features = normalize(FeatureStore.open(result.folder.store)[:])
    kmeans = KMeans(10, n_init=10, random_state=seed).fit_predict(features)
    scores = {"CgMCR²": score_labels(labels, result.clustering.labels), "k-means": score_labels(labels, kmeans)}
    protocol = (
        f"fitted on all {len(labels):,} images, labelled the same images, 1 seed ({seed}); "
        "k-means on the same features, best of 10 initialisations"
    )
    _print(scores, protocol, result.folder.report.resolve(), as_json)
    accuracy = scores["CgMCR²"].acc
    if seed == DEFAULT_SEED and accuracy < MIN_ACCURACY:
        logger.error(
            "The accuracy is %.1f %%, but at least %.0f %% is expected; the installation or the method is broken.",
            100 * accuracy,
            100 * MIN_ACCURACY,
        )
        raise typer.Exit(1)


def _write_images(pixels: Any, folder: Path) -> None:
    """Write rows of 8 x 8 pixels (0 to 16, bright on dark) as PNG files, dark on bright and enlarged."""
    import numpy as np
    from PIL import Image

    from cgmcr2._files import replacing

    digits = (255 - pixels.reshape(-1, 8, 8) * 255 / 16).astype(np.uint8)
    for number, digit in enumerate(digits):
        path = folder / f"{number:04}.png"
        if not path.exists():
            with replacing(path) as temporary:
                Image.fromarray(digit).resize((64, 64), Image.Resampling.BICUBIC).save(temporary)


def _print(scores: dict[str, Scores], protocol: str, report: Path, as_json: bool) -> None:
    if as_json:
        methods = {"cgmcr2": scores["CgMCR²"]._asdict(), "k-means": scores["k-means"]._asdict()}
        print_json({**methods, "protocol": protocol, "report": str(report)})
        return
    for method, score in scores.items():
        typer.echo(f"{method:8} {score}")
    typer.echo(f"Protocol: {protocol}")
    typer.echo(f"Report: {report}")
