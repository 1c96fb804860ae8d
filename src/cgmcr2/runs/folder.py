"""``RunFolder``: the only place that knows which files a run folder holds and what they mean."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from cgmcr2.clustering import Clustering
from cgmcr2.datasets import load_dataset
from cgmcr2.estimator import CgMCR2
from cgmcr2.features import FeatureStore
from cgmcr2.features.sources import FeatureSource, Subset, load_feature_file
from cgmcr2.images import Catalog
from cgmcr2.training.checkpoint import remove_checkpoints
from cgmcr2.training.log import read_metrics

from .info import RunInfo

StrPath = str | os.PathLike[str]

BEFORE_RUN = ("features", "errors.csv", "choice.json")  # files that may exist before run.json


class RunFolder:
    """A run folder and its files. Nothing is read before it is needed.

    Parameters
    ----------
    path : the folder; it need not exist yet
    """

    def __init__(self, path: StrPath) -> None:
        self.path = Path(path)
        self.run_json = self.path / "run.json"
        self.labels = self.path / "labels.csv"
        self.store = self.path / "features"
        self.errors = self.path / "errors.csv"
        self.model_folder = self.path / "model"
        self.metrics = self.path / "metrics.jsonl"
        self.report = self.path / "report.html"

    def __repr__(self) -> str:
        return f"RunFolder({str(self.path)!r})"

    @cached_property
    def info(self) -> RunInfo:
        """The contents of ``run.json``."""
        return RunInfo.read(self.run_json)

    @cached_property
    def clustering(self) -> Clustering:
        """The labels, embedding and names of the fitted rows."""
        return Clustering.load(self.path)

    def model(self, device: str = "auto") -> CgMCR2:
        """The trained model."""
        _ = self.info  # a missing or damaged run.json is reported first
        if not (self.model_folder / "config.json").exists():
            raise ValueError(f"{self.path} is an unfinished run; repeat its command to resume it.")
        model = CgMCR2.load(self.model_folder)
        model.device = device
        return model

    def catalog(self, images: StrPath | None = None) -> Catalog:
        """The images of the run: at ``images`` if they were moved, otherwise where they were clustered."""
        location = self.info.source if images is None else images
        data = self.info.data if images is None else None
        catalog = load_dataset(str(location), data).catalog if data else Catalog.from_source(location)
        if not set(self.clustering.ids).intersection(catalog.ids):
            raise ValueError(
                f"{os.fspath(location)} holds none of the run's images; give the folder or archive that does."
            )
        return catalog

    def features(self, ids: Sequence[str]) -> FeatureSource | None:
        """The features of these ids, in this order, or None if they are not available any more."""
        try:
            file = load_feature_file(self.store if self.store.is_dir() else self.info.source)
        except (OSError, ValueError, ImportError):
            return None
        index = {id: row for row, id in enumerate(file.ids or map(str, range(file.features.shape[0])))}
        if not index.keys() >= set(ids):
            return None
        return Subset(file.features, np.array([index[id] for id in ids], dtype=np.int64))

    def read_metrics(self) -> list[dict[str, Any]]:
        """The figures of every training step."""
        return read_metrics(self.metrics) if self.metrics.is_file() else []

    def read_errors(self) -> list[tuple[str, str]]:
        """(file, reason) of the images that could not be read."""
        return list(FeatureStore.open(self.store).errors) if (self.store / "manifest.json").is_file() else []

    def holds_finished(self, request: RunInfo) -> bool:
        """Whether the folder holds the finished run of ``request``.

        Raises ``ValueError`` if it holds another run or other files: nothing is overwritten.
        """
        if self.run_json.exists():
            differences = self.info.differences(request)
            if differences:
                raise ValueError(
                    f"{self.path} holds another run (its {' and '.join(differences)} differ); choose another folder, "
                    "or delete this one."
                )
            return self.info.finished
        if self.path.exists() and any(
            file.name not in BEFORE_RUN and not file.name.startswith(".") for file in self.path.iterdir()
        ):
            raise ValueError(f"{self.path} is not empty and holds no run; choose a new folder.")
        return False

    def write_info(self, info: RunInfo) -> None:
        """Write ``run.json``."""
        info.write(self.run_json)
        self.info = info

    def remove_checkpoints(self) -> None:
        """Delete the checkpoints of the finished training."""
        remove_checkpoints(self.path)
