"""``RunFolder``: paths and contents of a run folder."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from filelock import FileLock, Timeout

from cgmcr2 import _checksums
from cgmcr2._checksums import DamagedFileError
from cgmcr2.clustering import Clustering
from cgmcr2.clustering.edits import FILE_NAME as EDITS
from cgmcr2.clustering.edits import check_unmoved, load_edited
from cgmcr2.clustering.io import FILES as CLUSTERING_FILES
from cgmcr2.datasets import load_dataset
from cgmcr2.features import FeatureStore
from cgmcr2.features.duplicates import FILE_NAME as DUPLICATES
from cgmcr2.features.sources import FeatureSource, Subset, load_feature_file
from cgmcr2.images import Catalog
from cgmcr2.inference import TrainedModel
from cgmcr2.model.cluster_means import FILE_NAME as CLUSTER_MEANS_FILE
from cgmcr2.model.levels import FILE_NAME as LEVELS_FILE
from cgmcr2.model.levels import Levels, read_levels
from cgmcr2.model.weights import has_current_format

from .info import RunInfo

if TYPE_CHECKING:  # imports scikit-learn, which prediction does not need
    from cgmcr2.estimator import CgMCR2

StrPath = str | os.PathLike[str]

BEFORE_RUN = ("features", "errors.csv", "choice.json", DUPLICATES)  # files that may exist before run.json
MOVED = "give the folder or archive that holds them now with --images"
MODEL_FILES = ("model/config.json", "model/model.safetensors", f"model/{CLUSTER_MEANS_FILE}")
LEVELS = f"model/{LEVELS_FILE}"
SEALED = (
    "run.json",
    *CLUSTERING_FILES,
    *MODEL_FILES,
    LEVELS,
    "metrics.jsonl",
    "errors.csv",
    "choice.json",
    DUPLICATES,
    "report.html",
)


class RunFolder:
    """A run folder and its files. Files are read lazily and verified when they are read.

    Parameters
    ----------
    path : the folder; it need not exist yet
    with_edits : whether ``clustering`` includes the edits in ``edits.jsonl``
    """

    def __init__(self, path: StrPath, *, with_edits: bool = True) -> None:
        self.path, self.with_edits = Path(path), with_edits
        self.run_json = self.path / "run.json"
        self.labels = self.path / "labels.csv"
        self.store = self.path / "features"
        self.errors = self.path / "errors.csv"
        self.edits = self.path / EDITS
        self.model_folder = self.path / "model"
        self.metrics = self.path / "metrics.jsonl"
        self.report = self.path / "report.html"
        self.refit = self.path / ".refit"  # checkpoints of a refit; the earlier results stay until it has finished

    def __repr__(self) -> str:
        return f"RunFolder({str(self.path)!r})"

    @cached_property
    def info(self) -> RunInfo:
        """The contents of ``run.json``."""
        if _checksums.has_replacement(self.path):
            with self.lock():  # finishes it
                pass
        _checksums.verify_files(self.path, ["run.json"])
        return RunInfo.read(self.run_json)

    @cached_property
    def fitted(self) -> Clustering:
        """Labels, probabilities, embedding and cluster names of the fitted rows, without edits."""
        self.verify(*CLUSTERING_FILES)
        return Clustering.load(self.path, edits=False)

    @cached_property
    def clustering(self) -> Clustering:
        """The fitted clustering, after the edits in ``edits.jsonl`` unless they are left out."""
        return load_edited(self.path, self.fitted) if self.with_edits else self.fitted

    def model(self, device: str = "auto") -> TrainedModel:
        """The trained model, for prediction."""
        self.verify(*MODEL_FILES)
        return TrainedModel.load(self.model_folder, device=device)

    @cached_property
    def levels(self) -> Levels | None:
        """The tree of coarser and finer clusters; None if the number of clusters was given or is 1."""
        self.verify(LEVELS)
        return read_levels(self.model_folder) if (self.path / LEVELS).is_file() else None

    def at_level(self, m: int) -> Clustering:
        """The clustering at the level of m clusters."""
        check_unmoved(self.fitted, self.clustering)
        if self.levels is None:
            raise ValueError(
                f"{self.path} has no levels, because its number of clusters was given or only one cluster was found; "
                "they need -k auto and several clusters."
            )
        return self.clustering.at_level(self.levels, m)

    def estimator(self, device: str = "auto") -> CgMCR2:
        """The fitted estimator."""
        from cgmcr2.estimator import CgMCR2

        self.verify(*MODEL_FILES)
        return CgMCR2.load(self.model_folder, device=device)

    def verify(self, *names: str) -> None:
        """Raise unless the run is finished and its files ``names`` have not changed since."""
        if not self.info.finished:
            raise ValueError(f"{self.path} is an unfinished run; repeat its command to resume it.")
        if _checksums.read_checksums(self.path) is None:
            raise DamagedFileError(
                f"{self.path} has no {_checksums.FILE_NAME}, so its files cannot be verified; check it with: "
                f"cgmcr2 doctor {self.path}."
            )
        _checksums.verify_files(self.path, names)

    def is_outdated(self) -> bool:
        """Whether the run is finished, but this version cannot read its model."""
        return self.info.finished and not has_current_format(self.model_folder)

    def has_report(self) -> bool:
        """Whether ``report.html`` exists and was written completely."""
        name = self.report.name
        return name in (_checksums.read_checksums(self.path) or {}) and not _checksums.find_damage(self.path, [name])

    def seal(self, names: Sequence[str] = SEALED) -> None:
        """Record the checksums of the files ``names``."""
        _checksums.record_checksums(self.path, names)

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the folder for writing; another process that tries is refused. The system releases a dead one's lock."""
        created = not self.path.exists()
        self.path.mkdir(parents=True, exist_ok=True)
        lock = self.path / ".lock"
        try:
            with FileLock(lock, timeout=0):
                _checksums.finish_replacement(self.path)
                yield
        except Timeout:
            raise ValueError(
                f"Another process is writing to {self.path}; wait until it has finished, or choose another folder."
            ) from None
        finally:
            if created and [file.name for file in self.path.iterdir()] == [lock.name]:  # invalid input: nothing written
                lock.unlink(missing_ok=True)
                self.path.rmdir()

    def catalog(self, images: StrPath | None = None) -> Catalog:
        """The images of the run: at ``images`` if they were moved, otherwise where they were clustered."""
        location = self.info.source if images is None else images
        try:
            catalog = self.source_catalog() if images is None else Catalog.from_source(images)
        except FileNotFoundError as error:
            if self.info.data and images is None:
                raise  # the error names the missing files of the data set
            raise FileNotFoundError(f"The images of the run are not in {os.fspath(location)}; {MOVED}.") from error
        if not set(self.clustering.ids).intersection(catalog.ids):
            raise ValueError(f"{os.fspath(location)} holds none of the run's images; {MOVED}.")
        return catalog

    def source_catalog(self) -> Catalog:
        """The images where they were clustered."""
        if self.info.data:
            return load_dataset(self.info.source, self.info.data).catalog
        return Catalog.from_source(self.info.source, exclude=[self.path])

    def features(self, ids: Sequence[str]) -> FeatureSource | None:
        """The features of these ids, in this order, or None if they are no longer available."""
        if self.store.is_dir():
            file = load_feature_file(self.store)  # a damaged store raises
        else:
            try:
                file = load_feature_file(self.info.source)
            except (OSError, ValueError, ImportError):
                return None
        file_ids = file.ids or [str(row) for row in range(file.features.shape[0])]
        if file_ids == list(ids):
            return file.features
        index = {id: row for row, id in enumerate(file_ids)}
        if not index.keys() >= set(ids):
            return None
        return Subset(file.features, np.array([index[id] for id in ids], dtype=np.int64))

    def read_metrics(self) -> list[dict[str, Any]]:
        """The metrics of every training step."""
        from cgmcr2.training.log import read_metrics

        self.verify("metrics.jsonl")
        return read_metrics(self.metrics) if self.metrics.is_file() else []

    def read_errors(self) -> list[tuple[str, str]]:
        """(file, reason) of the images that could not be read."""
        return list(FeatureStore.open(self.store).errors) if self.store.is_dir() else []

    def holds_finished(self, request: RunInfo) -> bool:
        """Whether the folder holds the finished run of ``request``.

        Raises ``ValueError`` if it holds another run or other files: nothing is overwritten.
        """
        if self.run_json.exists():
            differences = self.info.differences(request)
            if differences:
                raise ValueError(self._refusal(request, differences))
            return self.info.finished and _checksums.read_checksums(self.path) is not None
        if self.path.exists() and any(
            file.name not in BEFORE_RUN and not file.name.startswith(".") for file in self.path.iterdir()
        ):
            raise ValueError(f"{self.path} is not empty and is not a run folder; choose a new folder.")
        return False

    def _refusal(self, request: RunInfo, differences: list[str]) -> str:
        if set(differences) <= {"images", "fitted_on", "features"} and request.encoder_name:
            return (
                f"The images have changed since {self.path} was made ({self.info.fitted_on.rows:,} then, "
                f"{request.fitted_on.rows:,} now); label the new ones with: cgmcr2 predict {self.path} "
                f"{request.source}, or cluster all of them again into this folder with --refit."
            )
        old, new = self.info.parameters, request.parameters
        changes = [
            f"{name} was {old.get(name)}, is {new.get(name)}"
            for name in {**old, **new}
            if old.get(name) != new.get(name)
        ]
        different = " and ".join(differences) + (f": {'; '.join(changes)}" if changes else "")
        refit = "add --refit to replace it, " if request.encoder_name else ""
        return f"{self.path} holds another run (different {different}); {refit}choose another folder, or delete it."

    def prepare_refit(self, request: RunInfo) -> Path:
        """The folder in which a refit trains; checkpoints of another interrupted refit are deleted."""
        path = self.refit / self.run_json.name
        if not path.is_file() or RunInfo.read(path).differences(request):
            shutil.rmtree(self.refit, ignore_errors=True)
            request.write(path)
        return self.refit

    def write_results(self, model: CgMCR2, clustering: Clustering, info: RunInfo, training_folder: Path) -> None:
        """Write all files of a finished run; they replace those of an earlier run together.

        ``training_folder`` holds the metrics and the choice of k, if it was chosen.
        """
        if not self.has_report():  # left over by a killed process
            self.report.unlink(missing_ok=True)
        with _checksums.replacing_files(self.path) as staging:
            model.save(staging / self.model_folder.name)
            clustering.save(staging)
            names = ("metrics.jsonl", "choice.json", DUPLICATES)
            for path in (*(training_folder / name for name in names), self.errors):
                if path.is_file():
                    shutil.copyfile(path, staging / path.name)
            info.write(staging / self.run_json.name)
        self.info, self.fitted, self.clustering, self.levels = info, clustering, clustering, model.levels_

    def write_info(self, info: RunInfo) -> None:
        """Write ``run.json``."""
        info.write(self.run_json)
        self.info = info

    def remove_checkpoints(self) -> None:
        """Delete the checkpoints of the finished training."""
        from cgmcr2.training.checkpoint import remove_checkpoints

        remove_checkpoints(self.path)
        for temporary in (*self.path.glob(".checkpoint.*.part*"), *self.path.glob(".precomputed.*.part*")):
            temporary.unlink(missing_ok=True)  # of a killed process
        shutil.rmtree(self.refit, ignore_errors=True)
