"""``cgmcr2 demo``: real images that every machine has, clustered and shown."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from . import options


def demo(
    output: Annotated[Path, typer.Option("-o", "--output", help="Where to put the images and the run.")] = Path(
        "demo-run"
    ),
    seed: Annotated[int, typer.Option("--seed", help="Same seed, same labels.")] = 0,
    quiet: options.Quiet = False,
) -> None:
    """Cluster 1,797 images of handwritten digits, compare with k-means, and write the page that shows them."""
    import numpy as np
    from PIL import Image
    from sklearn.cluster import KMeans
    from sklearn.datasets import load_digits
    from sklearn.preprocessing import normalize

    from cgmcr2._files import replacing
    from cgmcr2.evaluation import score_labels
    from cgmcr2.features import FeatureStore
    from cgmcr2.runs import cluster_images

    images, run = output / "images", output / "run"
    pixels, classes = load_digits(return_X_y=True)
    typer.echo(f"1. Writing {len(pixels):,} handwritten digits as image files: {images}")
    digits = (255 - pixels.reshape(-1, 8, 8) * 255 / 16).astype(np.uint8)
    for number, digit in enumerate(digits):
        path = images / f"{number:04}.png"
        if not path.exists():
            with replacing(path) as temporary:
                Image.fromarray(digit).resize((64, 64), Image.Resampling.BICUBIC).save(temporary)

    typer.echo("2. Embedding them with the bundled encoder and finding 10 clusters, without the labels")
    clustering = cluster_images(images, 10, run, random_state=seed, progress=not quiet)

    typer.echo("3. Comparing with the labels, which nothing above has seen")
    truth = classes[[int(Path(id).stem) for id in clustering.ids]]
    features = normalize(FeatureStore.open(run / "features")[:])
    kmeans = KMeans(10, n_init=10, random_state=seed).fit_predict(features)
    typer.echo(f"   CgMCR²   {score_labels(truth, clustering.labels)}")
    typer.echo(f"   k-means  {score_labels(truth, kmeans)}")
    typer.echo(
        f"   Protocol: fitted on all {len(truth):,} images, labelled the same images, 1 seed; k-means with n_init 10."
    )
    typer.echo(f"Look at the clusters: {(run / 'report.html').resolve()}")
