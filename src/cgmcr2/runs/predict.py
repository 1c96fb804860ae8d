"""Label new rows or images with the model of a run folder, and evaluate it."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from cgmcr2._arrays import confidence_and_margin
from cgmcr2._files import replacing
from cgmcr2.clustering import COLUMNS, Clustering, write_csv
from cgmcr2.clustering.edits import cluster_targets, load_history, replay
from cgmcr2.encoders import load_encoder
from cgmcr2.features import extract
from cgmcr2.features.extract import Engine
from cgmcr2.features.sources import FeatureFile, FeatureSource, check_finite, load_feature_file
from cgmcr2.images import Catalog
from cgmcr2.images.storage import absolute_source
from cgmcr2.inference import Inference, TrainedModel

from .folder import MODEL_FILES, RunFolder, StrPath
from .inputs import select_part

if TYPE_CHECKING:  # imports SciPy and scikit-learn, which prediction does not need
    from cgmcr2.evaluation import Protocol, Scores

Float32 = npt.NDArray[np.float32]
Int64 = npt.NDArray[np.int64]


class Prediction(NamedTuple):
    """The clusters of new rows or images, and what could not be labelled."""

    clustering: Clustering
    errors: list[tuple[str, str]]  # (file, reason) of the images that could not be read

    def write(self, path: StrPath) -> None:
        """Write a CSV file with the columns of ``labels.csv`` and ``error``: one row per input.

        Images that could not be read come last, with an empty cluster and the reason.
        """
        labelled = ((*record, "") for record in self.clustering.records())
        failed = ((id, "", "", "", "", "", reason) for id, reason in self.errors)
        with replacing(path) as temporary:
            write_csv(temporary, itertools.chain(labelled, failed), (*COLUMNS, "error"))


class Evaluation(NamedTuple):
    """Scores, the size of each cluster, and the protocol they were obtained with."""

    scores: Scores
    sizes: list[int]
    protocol: Protocol


class Predictor:
    """The model of a finished run, with the names and merges of its clusters.

    Parameters
    ----------
    run : a run folder
    device : where to run the model
    level : number of clusters to predict, of a run with ``-k auto``; default: the fitted ones, with their edits
    """

    def __init__(self, run: StrPath | RunFolder, *, device: str = "auto", level: int | None = None) -> None:
        self.run = run if isinstance(run, RunFolder) else RunFolder(run)
        self.level = level
        if level is not None:
            self.run.at_level(level)  # reject a level that the run does not have
        self.model, self.base = self._model_in_effect(device)

    def _model_in_effect(self, device: str) -> tuple[TrainedModel, Clustering]:
        """The model of the last refinement in effect, or else the fitted one, and the clustering that it predicts."""
        run = self.run
        done = load_history(run.path, run.fitted).done if run.with_edits else ()
        for length in range(len(done), 0, -1):
            name = done[length - 1].arguments.get("model")
            if name is not None:
                run.verify(*(file.replace("model", name, 1) for file in MODEL_FILES))
                return TrainedModel.load(run.path / name, device=device), replay(run.fitted, done[:length])
        return run.model(device), run.fitted

    def predict_features(self, features: StrPath, *, part: str = "all") -> Prediction:
        """Label (a part of) a feature file with the cluster head."""
        source, ids, _ = self._select(load_feature_file(features), features, part)
        return Prediction(self._label(source, ids), [])

    def predict_images(
        self,
        source: StrPath,
        *,
        cache: StrPath | None = None,
        use_cache: bool = True,
        progress: bool = False,
        retry_errors: bool = False,
        engine: Engine = "local",
        address: str | None = None,
        num_workers: int | None = None,
    ) -> Prediction:
        """Label images. The run folder is not changed.

        Parameters
        ----------
        source : folder, list or archive of images
        cache : folder to keep the features in, so that a second call is fast; default: the user's cache folder
        use_cache : whether to keep them at all
        progress : show a progress bar
        retry_errors : whether to try images again that an earlier call could not read
        engine, address, num_workers : how to embed the images, see :func:`cgmcr2.features.extract`
        """
        encoder_name = self.run.info.encoder_name
        if not encoder_name:
            raise ValueError(f"{self.run.path} was fitted on features, not on images; give it features to label.")
        catalog = Catalog.from_source(source, exclude=[self.run.path])
        encoder = load_encoder(encoder_name)
        self.check_encoder(encoder.fingerprint, encoder.dim, str(source))
        folder = Path(cache) if cache is not None else _user_cache()
        with _store_path(folder if use_cache else None, f"{absolute_source(source)}\0{encoder.fingerprint}") as store:
            features = extract(
                catalog,
                encoder,
                store,
                progress=progress,
                retry_errors=retry_errors,
                engine=engine,
                address=address,
                num_workers=num_workers,
            )
            clustering = self._label(features, features.ids)
        return Prediction(clustering, features.errors)

    def evaluate(
        self, features: StrPath, *, part: str = "test", labels: str = "labels", spectral: bool = False
    ) -> Evaluation:
        """Compare with the labels of a feature file, on the rows of ``part`` (all rows without a split)."""
        from cgmcr2.evaluation import Protocol, score_labels

        file = load_feature_file(features, labels=labels)
        if file.labels is None:
            raise ValueError(f"{features} has no {labels!r} to compare with; give a file with labels.")
        source, ids, name = self._select(file, features, part)
        if spectral:
            predicted = self.run.estimator(self.model.device).spectral_labels(source)
        else:
            predicted = self._label(source, ids).labels
        scores = score_labels(np.asarray(file.labels)[file.rows(part)], predicted)
        sizes = np.bincount(predicted, minlength=self.run.clustering.n_clusters).tolist()
        fitted_on = self.run.info.fitted_on
        by = "spectral" if spectral else "head"
        protocol = Protocol(fitted_on.part, fitted_on.rows, name, source.shape[0], by)  # type: ignore[arg-type]
        return Evaluation(scores, sizes, protocol)

    def _label(self, source: FeatureSource, ids: Sequence[str]) -> Clustering:
        """Label ``source`` with the edited clusters of the run."""
        edited = self.run.clustering
        inference = follow_edits(self.model.infer(source), self.base, edited)
        fields = {name: getattr(edited, name) for name in ("names", "merged", "excluded")}
        clustering = Clustering(ids, **inference._asdict(), **fields)
        if self.level is None or self.run.levels is None:
            return clustering
        return clustering.at_level(self.run.levels, self.level)

    def _select(self, file: FeatureFile, path: StrPath, part: str) -> tuple[FeatureSource, list[str], str]:
        self.check_encoder(file.fingerprint, file.features.shape[1], str(path))
        source, ids, name = select_part(file, part)
        check_finite(source)
        return source, ids, name

    def check_encoder(self, fingerprint: str | None, width: int, features: str) -> None:
        """Refuse features of another encoder, by fingerprint if both are known, otherwise by width."""
        fitted = self.run.info.encoder
        if fitted and fingerprint and fitted != fingerprint:
            raise ValueError(
                f"{features} was made by another encoder ({fingerprint}) than {self.run.path} ({fitted}); use the same."
            )
        spaces = self.model.network.config.spaces
        if spaces and width != self.model.n_features:
            raise ValueError(
                f"{features} has rows of {width} features, but {self.run.path} was fitted on feature spaces of widths "
                f"{' and '.join(map(str, spaces))}; give all of them in this order, joined by ' + '."
            )
        if width != self.model.n_features:
            raise ValueError(
                f"{features} has rows of {width} features, but {self.run.path} was fitted on "
                f"{self.model.n_features}; use features of the same encoder."
            )


def follow_edits(inference: Inference, fitted: Clustering, edited: Clustering) -> Inference:
    """Let new images follow the edits of similar fitted images.

    A new image goes where someone moved the fitted images of its cluster: all of them, after a merge; otherwise, as
    after a split, the majority of the nearest ones in the embedding.
    """
    if edited is fitted:
        return inference
    targets = cluster_targets(fitted, edited)
    labels = targets[inference.labels]
    for cluster in np.unique(fitted.labels[targets[fitted.labels] != edited.labels]):  # divided by the edits
        rows, members = fitted.rows(int(cluster)), np.flatnonzero(inference.labels == cluster)
        if fitted.embedding is not None:
            known = fitted.embedding[rows]
            labels[members] = _nearest_labels(inference.embedding[members], known, edited.labels[rows])
    if inference.probabilities is None:
        return inference._replace(labels=labels)
    probabilities = inference.probabilities @ np.eye(edited.n_clusters, dtype=np.float32)[targets]
    rows = np.flatnonzero(labels != targets[inference.labels])
    origins = targets[inference.labels[rows]]
    pair = probabilities[rows, labels[rows]], probabilities[rows, origins]
    probabilities[rows, origins], probabilities[rows, labels[rows]] = pair
    confidence, margin = confidence_and_margin(labels, probabilities)
    return inference._replace(labels=labels, confidence=confidence, margin=margin, probabilities=probabilities)


def _nearest_labels(Z: Float32, known: Float32, labels: Int64, *, m: int = 5, block: int = 4_096) -> Int64:
    """(n,) the most frequent of the ``labels`` of the m rows of ``known`` nearest to each row of ``Z (n, d)``."""
    m = min(m, len(known))
    result = np.empty(len(Z), np.int64)
    values, codes = np.unique(labels, return_inverse=True)
    for start in range(0, len(Z), block):
        rows = slice(start, start + block)
        nearest = np.argpartition(-(Z[rows] @ known.T), m - 1, axis=1)[:, :m]
        votes = (codes[nearest][:, :, None] == np.arange(len(values))).sum(1)
        result[rows] = values[votes.argmax(1)]
    return result


def _user_cache() -> Path:
    """The folder for cached features, as the operating system has it."""
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "cgmcr2"


@contextlib.contextmanager
def _store_path(cache: Path | None, key: str) -> Iterator[Path]:
    """The folder of a feature store in the cache, or a temporary one without a (writable) cache."""
    if cache is not None:
        store = cache / "features" / hashlib.sha256(key.encode(errors="surrogateescape")).hexdigest()[:16]
        try:
            store.mkdir(parents=True, exist_ok=True)
            writable = os.access(store, os.W_OK)
        except OSError:
            writable = False
        if writable:
            yield store
            return
    with tempfile.TemporaryDirectory(prefix="cgmcr2-") as temporary:
        yield Path(temporary) / "features"
