"""Where the features of a data set are: in a folder of feature files and stores."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np

from cgmcr2.datasets import dataset_info
from cgmcr2.features.sources import FeatureFile, is_features, load_feature_file


@dataclasses.dataclass(frozen=True)
class Features:
    """The features of one data set: their file, which of its arrays holds the labels, and what made them."""

    dataset: str
    path: Path
    labels: str
    encoder: str
    rows: int  # that a method is fitted on where there is a split
    width: int
    classes: int


def find_features(dataset: str, store: Path, encoder: str) -> Features:
    """The features of ``dataset`` in the folder ``store``, those of ``encoder`` before others.

    Looked for: ``NAME.npz``, ``NAME-ENCODER.npz``, ``NAME-*.npz``, and feature stores of these names. CIFAR-20 is in
    CIFAR-100's as ``coarse_labels``.
    """
    info = dataset_info(dataset)
    names = [(info.name, "labels")]
    if info.name == "cifar20":
        names.append(("cifar100", "coarse_labels"))
    for name, labels in names:
        first = [store / f"{name}.npz", store / name, store / f"{name}-{encoder}.npz", store / f"{name}-{encoder}"]
        others = sorted(path for path in store.glob(f"{name}-*") if path.suffix == ".npz" or path.is_dir())
        for path in [*first, *others]:
            if path.exists() and is_features(path):
                file = load_feature_file(path, labels=labels)
                made_by = path.name.removesuffix(".npz").removeprefix(name).strip("-")
                return _described(info.name, path, labels, file, made_by)
    raise FileNotFoundError(f"{store} has no {info.name}.npz, {info.name}-*.npz or feature store of that name.")


def _described(dataset: str, path: Path, labels: str, file: FeatureFile, made_by: str) -> Features:
    if file.labels is None:
        raise ValueError(f"{path} has no array named {labels!r}, which the scores of {dataset} need; add it.")
    fitted = len(file.rows("train")) or len(file.rows("all"))
    encoder = made_by or file.fingerprint or "an encoder that is not named"
    classes = len(np.unique(np.asarray(file.labels)))
    return Features(dataset, path, labels, encoder, fitted, file.features.shape[1], classes)
