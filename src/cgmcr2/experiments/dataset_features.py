"""Features of the paper's data sets: found in a folder of feature files, or extracted into it from the images."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from cgmcr2.datasets import dataset_info, embed_dataset, load_dataset
from cgmcr2.features.sources import is_features, load_feature_file


@dataclasses.dataclass(frozen=True)
class DatasetFeatures:
    """Features of one data set: the file, the name of its label array, and the encoder that made them."""

    dataset: str
    path: Path
    labels: str
    encoder: str
    fit_rows: int  # rows of the train split, or all rows if there is no split
    width: int
    classes: int

    @property
    def title(self) -> str:
        """Name of the data set as the paper writes it."""
        return dataset_info(self.dataset).title


@dataclasses.dataclass(frozen=True)
class FeatureLookup:
    """Where to look for features, and how to extract those that are missing."""

    folder: Path
    data: str | os.PathLike[str] | None = None  # folder of the data sets' official files; None: extract nothing
    download: bool = False  # whether to download missing official files
    encoder: str | None = None  # the only encoder to accept; None: the table's encoder is preferred
    progress: bool = False

    def collect(self, names: Sequence[str], encoder: str) -> tuple[dict[str, DatasetFeatures], list[str]]:
        """Return the features of each data set that has some, and one sentence for each that has none."""
        if not self.folder.is_dir() and self.data is None:
            raise FileNotFoundError(f"There is no folder {self.folder}; give the folder that holds the features.")
        features, notes = {}, []
        for name in names:
            try:
                features[name] = self.provide(name, encoder)
            except (OSError, ValueError, ImportError) as error:
                notes.append(f"{dataset_info(name).title} is left out: {error}")
        return features, notes

    def provide(self, dataset: str, encoder: str) -> DatasetFeatures:
        """Return the features of ``dataset``, extracted from its images if there are none in the folder."""
        chosen = self.encoder or encoder
        try:
            return find_features(dataset, self.folder, chosen, exact=self.encoder is not None)
        except (OSError, ValueError):  # no features, or an unfinished store
            if self.data is None:
                raise
        extract_features(dataset, self.folder, chosen, self.data, download=self.download, progress=self.progress)
        return find_features(dataset, self.folder, chosen, exact=True)


def find_features(dataset: str, folder: Path, encoder: str, *, exact: bool = False) -> DatasetFeatures:
    """Return the features of ``dataset`` in ``folder``: those of ``encoder`` if present, else (not ``exact``) any.

    Accepted names are ``NAME.npz``, ``NAME-ENCODER.npz``, ``NAME-*.npz``, and feature stores of these names. CIFAR-20
    may be the array ``coarse_labels`` of CIFAR-100's file.
    """
    info = dataset_info(dataset)
    names = [(info.name, "labels")]
    if info.name == "cifar20":
        names.append(("cifar100", "coarse_labels"))
    for name, labels in names:
        stem = f"{name}-{_file_name(encoder)}"
        paths = [folder / stem, folder / f"{stem}.npz"]
        if not exact:
            others = sorted(path for path in folder.glob(f"{name}-*") if path.suffix == ".npz" or path.is_dir())
            paths = [folder / name, folder / f"{name}.npz", *paths, *others]
        for path in paths:
            if path.exists() and is_features(path):
                encoder_name = path.name.removesuffix(".npz").removeprefix(name).strip("-")
                return _describe(info.name, path, labels, encoder_name)
    expected = stem if exact else f"{info.name}.npz, {info.name}-*.npz"
    raise FileNotFoundError(f"{folder} has no {expected} or feature store of that name.")


def extract_features(
    dataset: str, folder: Path, encoder: str, data: str | os.PathLike[str], *, download: bool, progress: bool
) -> None:
    """Embed a data set, whose official files are in ``data``, into a feature store that ``find_features`` finds.

    CIFAR-20 and CIFAR-100 share one store.
    """
    name = dataset_info(dataset).name
    arrays = {}
    if name in ("cifar20", "cifar100"):
        arrays["coarse_labels"] = load_dataset("cifar20", data, download=download).labels
        name = "cifar100"
    store = folder / f"{name}-{_file_name(encoder)}"
    embed_dataset(load_dataset(name, data, download=download), encoder, store, progress=progress, **arrays)


def select_datasets(name: str, datasets: Sequence[str], only: Sequence[str]) -> list[str]:
    """Return the data sets of table or figure ``name`` that ``only`` names, in its order; all if ``only`` is empty."""
    selected = {dataset_info(dataset).name for dataset in only} or set(datasets)
    unknown = selected - set(datasets)
    if unknown:
        raise ValueError(f"{name} has no data set {sorted(unknown)[0]}; it has {', '.join(datasets) or 'none'}.")
    return [dataset for dataset in datasets if dataset in selected]


def _describe(dataset: str, path: Path, labels: str, encoder: str) -> DatasetFeatures:
    file = load_feature_file(path, labels=labels)
    if file.labels is None:
        raise ValueError(f"{path} has no array named {labels!r}, which the scores of {dataset} need; add it.")
    fit_rows = len(file.rows("train")) or len(file.rows("all"))
    encoder = encoder or file.fingerprint or "unknown encoder"
    classes = len(np.unique(np.asarray(file.labels)))
    return DatasetFeatures(dataset, path, labels, encoder, fit_rows, file.features.shape[1], classes)


def _file_name(encoder: str) -> str:
    return re.sub(r"[^A-Za-z0-9.-]+", "-", encoder).strip("-")
