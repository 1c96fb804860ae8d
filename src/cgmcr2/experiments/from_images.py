"""Features of the paper's data sets from an encoder that is trained on their images."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from cgmcr2._checksums import digest
from cgmcr2._files import replacing
from cgmcr2.datasets import dataset_info, load_dataset
from cgmcr2.pretrain import pretrain
from cgmcr2.pretrain.features import averaged_features
from cgmcr2.pretrain.folder import save_encoder
from cgmcr2.pretrain.images import load_images

from .image_files import has_images, load_input_file

SIZE = 32  # pixels; the paper's crops


@dataclasses.dataclass(frozen=True)
class Pretraining:
    """How encoders are trained on the images of data sets, and where images and encoders are."""

    method: str
    folder: Path  # of NAME-images.npz with images, labels and split
    output: Path  # of trained encoders, their features, and images from the official files
    settings: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    max_rows: int = 0  # maximum number of images to train on; 0: no limit
    data: str | os.PathLike[str] | None = None  # folder of the official files
    download: bool = False
    progress: bool = False

    def images(self, dataset: str) -> Path | None:
        """The .npz of the images of ``dataset``; from the official files if the folder has none, else None."""
        name = stored_name(dataset)
        path = self.folder / f"{name}-images.npz"
        if has_images(path):
            return path
        if self.data is None:
            return None
        path = self.output / f"{name}-images.npz"
        if not path.exists():
            self._convert(name, path)
        return path

    def features(self, images: Path) -> Path:
        """The .npz of the averaged features of two views of ``images``, by an encoder that is trained on split 0."""
        from .job import limit_rows

        identity = [self.method, dict(self.settings), self.max_rows, digest(images)]
        key = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:8]
        stem = f"{images.name.removesuffix('-images.npz')}-{self.method}-{key}"
        path = self.output / f"{stem}.npz"
        if path.exists():
            return path
        file = load_input_file(images)
        pixels = np.asarray(file.features)
        rows = limit_rows(file.rows("train"), self.max_rows)
        settings = {"size": pixels.shape[1], **self.settings}
        folder = _made(self.output / stem)
        trained = pretrain(pixels[rows], self.method, settings, folder=folder, progress=self.progress)
        if not trained.finished:
            raise KeyboardInterrupt
        with np.load(images, allow_pickle=False) as archive:
            labels = {name: archive[name] for name in archive.files if name != "images"}
        with replacing(path) as temporary, temporary.open("wb") as stream:
            np.savez(stream, features=averaged_features(trained, pixels), **labels)
        save_encoder(
            trained, folder, {"method": self.method, "settings": settings, "data": images.name, "n": len(rows)}
        )
        return path

    def _convert(self, name: str, path: Path) -> None:
        """Write the images of the official files to ``path``."""
        assert self.data is not None
        dataset = load_dataset(name, self.data, download=self.download)
        pixels = load_images(dataset.catalog, SIZE, _made(self.output), progress=self.progress)
        if len(pixels) != len(dataset):
            raise ValueError(f"{len(dataset) - len(pixels):,} images of {name} are unreadable; download them again.")
        arrays: dict[str, Any] = {"images": pixels, "labels": dataset.labels}
        if dataset.split is not None:
            arrays["split"] = dataset.split
        if name == "cifar100":
            arrays["coarse_labels"] = load_dataset("cifar20", self.data).labels
        with replacing(path) as temporary, temporary.open("wb") as stream:
            np.savez(stream, **arrays)


def stored_name(dataset: str) -> str:
    """Name of the data set whose files hold ``dataset``: CIFAR-20 has the images of CIFAR-100.

    >>> stored_name("CIFAR-20")
    'cifar100'
    """
    name = dataset_info(dataset).name
    return "cifar100" if name == "cifar20" else name


def label_array(dataset: str) -> str:
    """Name of the array of the labels of ``dataset`` in its files."""
    return "coarse_labels" if dataset_info(dataset).name == "cifar20" else "labels"


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder
