"""What a run is fitted on: parts of feature files, embedded images and their near-duplicates."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from cgmcr2._checksums import FILE_NAME as CHECKSUMS
from cgmcr2._checksums import record_checksums
from cgmcr2.encoders import load_encoder
from cgmcr2.features import FeatureStore, extract
from cgmcr2.features.duplicates import Int64, find_groups, read_groups, write_groups
from cgmcr2.features.sources import FeatureFile, FeatureSource, Subset
from cgmcr2.images import Catalog

PARTS = {"train": "split 0", "test": "split 1", "all": "all rows"}


def select_part(file: FeatureFile, part: str) -> tuple[FeatureSource, list[str], str]:
    """The rows of a part ("train", "test" or "all") of a feature file, their ids, and the part's name."""
    if not file.features.shape[0]:
        raise ValueError("The features have no rows; give at least 2.")
    rows = file.rows(part)
    if not len(rows):
        raise ValueError(f"The features have no rows in {PARTS[part]}; choose another part.")
    ids = [file.ids[row] for row in rows] if file.ids else [str(row) for row in rows]
    if file.split is None or part == "all":
        return file.features, ids, PARTS["all"]
    features = file.features
    return (features[rows] if type(features) is np.ndarray else Subset(features, rows)), ids, PARTS[part]


def embed_images(catalog: Catalog, encoder: str, store: Path, errors: Path, progress: bool) -> FeatureStore:
    """Embed the images of ``catalog`` into ``store``; list those that cannot be read in ``errors``, if any."""
    features = extract(catalog, load_encoder(encoder), store, progress=progress, retry_errors=True)
    if features.errors:
        features.write_errors_csv(errors)
    else:
        errors.unlink(missing_ok=True)
    if (errors.parent / CHECKSUMS).exists():  # the folder of a finished run
        record_checksums(errors.parent, [errors.name])
    return features


def image_groups(
    folder: Path, source: FeatureSource, ids: Sequence[str], catalog: Catalog, digest: str, *, progress: bool
) -> Int64:
    """Groups (n,) of near-duplicates among the images ``ids``, from ``duplicates.json`` in ``folder`` if it has them.

    ``digest`` is that of the features ``source (n, D)``.
    """
    groups = read_groups(folder, digest)
    if groups is None:
        groups = find_groups(source, ids, catalog, progress=progress)
        if not (folder / CHECKSUMS).exists():  # the groups of a finished run are kept
            write_groups(folder, groups, digest)
    return groups
