"""Where the features of a data set are: in a folder of feature files and stores, or made there from its images."""

from __future__ import annotations

import dataclasses
import os
import re
from pathlib import Path

import numpy as np

from cgmcr2.datasets import dataset_info, embed_dataset, load_dataset
from cgmcr2.features.sources import is_features, load_feature_file


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


def find_features(dataset: str, store: Path, encoder: str, *, exact: bool = False) -> Features:
    """The features of ``dataset`` in the folder ``store``, those of ``encoder`` first, or (``exact``) only those.

    Looked for: ``NAME.npz``, ``NAME-ENCODER.npz``, ``NAME-*.npz``, and feature stores of these names. CIFAR-20 is in
    CIFAR-100's as ``coarse_labels``.
    """
    info = dataset_info(dataset)
    names = [(info.name, "labels")]
    if info.name == "cifar20":
        names.append(("cifar100", "coarse_labels"))
    for name, labels in names:
        own = f"{name}-{_in_a_name(encoder)}"
        paths = [store / own, store / f"{own}.npz"]
        if not exact:
            others = sorted(path for path in store.glob(f"{name}-*") if path.suffix == ".npz" or path.is_dir())
            paths = [store / name, store / f"{name}.npz", *paths, *others]
        for path in paths:
            if path.exists() and is_features(path):
                return _described(info.name, path, labels, path.name.removesuffix(".npz").removeprefix(name).strip("-"))
    wanted = own if exact else f"{info.name}.npz, {info.name}-*.npz"
    raise FileNotFoundError(f"{store} has no {wanted} or feature store of that name.")


def provide_features(
    dataset: str,
    store: Path,
    encoder: str,
    *,
    given: str | None = None,
    data: str | os.PathLike[str] | None = None,
    download: bool = False,
    progress: bool = False,
) -> Features:
    """What ``find_features`` finds, or where it finds nothing and ``data`` holds the images, what they are embedded to.

    ``given``: an encoder that the user insists on in place of ``encoder``.
    """
    try:
        return find_features(dataset, store, given or encoder, exact=given is not None)
    except (OSError, ValueError):  # none, or a store that was not finished
        if data is None:
            raise
    embed_features(dataset, store, given or encoder, data, download=download, progress=progress)
    return find_features(dataset, store, given or encoder, exact=True)


def embed_features(
    dataset: str, store: Path, encoder: str, data: str | os.PathLike[str], *, download: bool, progress: bool
) -> None:
    """Embed a data set, whose files are in ``data``, to where ``find_features`` looks; CIFAR-20 with CIFAR-100."""
    name = dataset_info(dataset).name
    more = {}
    if name in ("cifar20", "cifar100"):
        more["coarse_labels"] = load_dataset("cifar20", data, download=download).labels
        name = "cifar100"
    place = store / f"{name}-{_in_a_name(encoder)}"
    embed_dataset(load_dataset(name, data, download=download), encoder, place, progress=progress, **more)


def _described(dataset: str, path: Path, labels: str, made_by: str) -> Features:
    file = load_feature_file(path, labels=labels)
    if file.labels is None:
        raise ValueError(f"{path} has no array named {labels!r}, which the scores of {dataset} need; add it.")
    fitted = len(file.rows("train")) or len(file.rows("all"))
    encoder = made_by or file.fingerprint or "an encoder that is not named"
    classes = len(np.unique(np.asarray(file.labels)))
    return Features(dataset, path, labels, encoder, fitted, file.features.shape[1], classes)


def _in_a_name(encoder: str) -> str:
    return re.sub(r"[^A-Za-z0-9.-]+", "-", encoder).strip("-")
