"""How many clusters there are in images or features, before any training."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from cgmcr2._files import write_json
from cgmcr2.consensus import Choice, choose_k
from cgmcr2.features.sources import FeatureSource, check_finite, is_features, load_feature_file
from cgmcr2.images import Catalog

from .folder import StrPath, select_part
from .images import embed_images


def choose_clusters(
    source: StrPath,
    folder: StrPath | None = None,
    *,
    most: int | None = None,
    encoder: str = "bundled",
    part: str = "train",
    seed: int = 0,
    progress: bool = False,
) -> Choice:
    """The number of clusters of a feature file or of images; with a ``folder``, kept there as ``choice.json``."""
    if not Path(source).exists():
        raise FileNotFoundError(f"There is no file or folder {source}.")
    features: FeatureSource
    if is_features(source):
        features = select_part(load_feature_file(source), part)[0]
        check_finite(features)
    elif folder is None:
        raise ValueError(f"{source} holds images, whose features need a place; name a folder for them with -o.")
    else:
        catalog = Catalog.from_source(source, exclude=[folder])
        features = embed_images(catalog, encoder, Path(folder) / "features", Path(folder) / "errors.csv", progress)
    choice = choose_k(features, most=most, seed=seed, progress=progress)
    if folder is not None:
        write_json(Path(folder) / "choice.json", {"source": str(Path(source).resolve()), **dataclasses.asdict(choice)})
    return choice
