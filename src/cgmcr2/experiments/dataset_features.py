"""Features of the paper's data sets: find them in a folder, or extract missing ones from the images."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from cgmcr2.datasets import dataset_info, embed_dataset, load_dataset
from cgmcr2.features.sources import is_features, load_feature_file

from .from_images import Pretraining, label_array


@dataclasses.dataclass(frozen=True)
class DatasetFeatures:
    """Features of one data set: path, name of the label array, encoder and size."""

    dataset: str
    path: Path
    labels: str
    encoder: str
    fit_rows: int  # number of training rows; all rows if there is no split
    width: int
    classes: int
    images: Path | None = None  # .npz of the images, for methods that cluster images

    @property
    def title(self) -> str:
        """Name of the data set as the paper writes it."""
        return dataset_info(self.dataset).title


@dataclasses.dataclass(frozen=True)
class FeatureLookup:
    """Folder to search for features, and options for extracting missing ones."""

    folder: Path
    data: str | os.PathLike[str] | None = None  # folder of the official files; None disables extraction
    download: bool = False  # whether to download missing official files
    encoder: str | None = None  # accept only features of this encoder; None accepts any
    progress: bool = False
    pretraining: Pretraining | None = None  # of the encoder, if there are images but no features of the table's encoder

    def collect(self, names: Sequence[str], encoder: str) -> tuple[dict[str, DatasetFeatures], list[str]]:
        """Return the features by data set, and one note for each data set without features."""
        if not self.folder.is_dir() and self.data is None:
            raise FileNotFoundError(f"There is no folder {self.folder}; pass the folder that contains the features.")
        features, notes = {}, []
        for name in names:
            try:
                features[name] = self.provide(name, encoder)
            except (OSError, ValueError, ImportError) as error:
                notes.append(f"{dataset_info(name).title} is left out: {error}")
        return features, notes

    def provide(self, dataset: str, encoder: str) -> DatasetFeatures:
        """Return the features of ``dataset``; if the folder has none, they are computed from the images."""
        chosen = self.encoder or encoder
        images = self.pretraining.images(dataset) if self.pretraining else None
        if self.pretraining and images and self.encoder is None:
            try:
                features = find_features(dataset, self.folder, encoder, others=False)
            except (OSError, ValueError):
                path = self.pretraining.features(images)
                name = f"{self.pretraining.method}, trained on its images"
                features = _describe(dataset_info(dataset).name, path, label_array(dataset), name)
            return dataclasses.replace(features, images=images)
        return dataclasses.replace(self._provide(dataset, chosen), images=images)

    def _provide(self, dataset: str, chosen: str) -> DatasetFeatures:
        try:
            return find_features(dataset, self.folder, chosen, exact=self.encoder is not None)
        except (OSError, ValueError):  # no features, or an unfinished store
            if self.data is None:
                raise
        extract_features(dataset, self.folder, chosen, self.data, download=self.download, progress=self.progress)
        return find_features(dataset, self.folder, chosen, exact=True)


def find_features(
    dataset: str, folder: Path, encoder: str, *, exact: bool = False, others: bool = True
) -> DatasetFeatures:
    """Return the features of ``dataset`` in ``folder``.

    The names ``NAME``, ``NAME-ENCODER`` and ``NAME-*`` are tried in this order; with ``exact``, ``NAME-ENCODER`` only,
    and without ``others``, the first two.
    Each may be a feature store or an ``.npz`` file. CIFAR-20 may also be the array ``coarse_labels`` of CIFAR-100.
    """
    info = dataset_info(dataset)
    names = [(info.name, "labels")]
    if info.name == "cifar20":
        names.append(("cifar100", "coarse_labels"))
    for name, labels in names:
        stem = f"{name}-{_file_name(encoder)}"
        paths = [folder / stem, folder / f"{stem}.npz"]
        if not exact:
            paths = [folder / name, folder / f"{name}.npz", *paths]
        if others and not exact:
            paths += sorted(path for path in folder.glob(f"{name}-*") if path.suffix == ".npz" or path.is_dir())
        for path in paths:
            if path.exists() and is_features(path):
                encoder_name = path.name.removesuffix(".npz").removeprefix(name).strip("-")
                return _describe(info.name, path, labels, encoder_name)
    expected = stem if exact else f"{info.name}.npz, {info.name}-*.npz"
    raise FileNotFoundError(f"{folder} has no {expected} or feature store of that name.")


def extract_features(
    dataset: str, folder: Path, encoder: str, data: str | os.PathLike[str], *, download: bool, progress: bool
) -> None:
    """Embed a data set into the feature store ``folder/NAME-ENCODER``; CIFAR-20 and CIFAR-100 share one store.

    ``data`` is the folder of the official files; ``download`` downloads missing ones.
    """
    name = dataset_info(dataset).name
    arrays = {}
    if name in ("cifar20", "cifar100"):
        arrays["coarse_labels"] = load_dataset("cifar20", data, download=download).labels
        name = "cifar100"
    store = folder / f"{name}-{_file_name(encoder)}"
    embed_dataset(load_dataset(name, data, download=download), encoder, store, progress=progress, **arrays)


def select_datasets(name: str, datasets: Sequence[str], only: Sequence[str]) -> list[str]:
    """Return those of ``datasets`` that are in ``only``; all if ``only`` is empty.

    ``name`` is the table or figure, for error messages.
    """
    selected = {dataset_info(dataset).name for dataset in only} or set(datasets)
    unknown = selected - set(datasets)
    if unknown:
        raise ValueError(f"{name} has no data set {sorted(unknown)[0]}; it has {', '.join(datasets) or 'none'}.")
    return [dataset for dataset in datasets if dataset in selected]


def _describe(dataset: str, path: Path, labels: str, encoder: str) -> DatasetFeatures:
    file = load_feature_file(path, labels=labels)
    if file.labels is None:
        raise ValueError(f"{path} has no array {labels!r}, which is needed to score {dataset}; add it.")
    fit_rows = len(file.rows("train")) or len(file.rows("all"))
    encoder = encoder or file.fingerprint or "unknown encoder"
    classes = len(np.unique(np.asarray(file.labels)))
    return DatasetFeatures(dataset, path, labels, encoder, fit_rows, file.features.shape[1], classes)


def _file_name(encoder: str) -> str:
    return re.sub(r"[^A-Za-z0-9.-]+", "-", encoder).strip("-")
