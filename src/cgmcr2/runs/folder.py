"""A run folder: made from features, opened again, asked to predict. docs/run-folder.md lists its files."""

from __future__ import annotations

import dataclasses
import json
import os
import platform
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from cgmcr2 import __version__
from cgmcr2._files import write_json
from cgmcr2.clustering import Clustering
from cgmcr2.clustering.geometry import outlier_scores
from cgmcr2.estimator import CgMCR2
from cgmcr2.evaluation import Protocol, Scores, score_labels
from cgmcr2.features.sources import FeatureFile, FeatureSource, Subset, check_finite, load_feature_file

StrPath = str | os.PathLike[str]
_BEFORE_RUN = ("features", "errors.csv", "choice.json")  # what a run folder may hold before its run.json
PARTS = {"train": "split 0", "test": "split 1", "all": "all rows"}


class Evaluation(NamedTuple):
    """Scores, the size of each cluster, and what they mean."""

    scores: Scores
    sizes: list[int]
    protocol: Protocol


def fit_features(
    model: CgMCR2, features: StrPath, folder: StrPath, *, part: str = "train", tensorboard: bool = False
) -> Clustering:
    """Fit ``model`` on (a part of) a feature file into a run folder; goes on where an earlier call was cut short."""
    file = load_feature_file(features)
    source, ids, name = select_part(file, part)
    about = {
        "source": str(Path(features).resolve()),
        "fitted_on": {"part": name, "rows": source.shape[0], "width": source.shape[1]},
        "encoder": file.fingerprint,
    }
    return fit_source(model, source, ids, Path(folder), about, tensorboard=tensorboard)


def fit_source(
    model: CgMCR2,
    source: FeatureSource,
    ids: Sequence[str],
    folder: Path,
    about: dict[str, Any],
    *,
    tensorboard: bool = False,
) -> Clustering:
    """Fit ``model`` on ``source``, whose rows are called ``ids``, into ``folder``; ``about`` says where they come from.

    Same request, finished folder: what is there is returned. Another request: refused, nothing is overwritten.
    """
    model.plan(*source.shape)  # refuses what cannot be, before anything is written
    check_finite(source)
    request = {**about, "parameters": _parameters(model)}
    earlier = read_run(folder) if (folder / "run.json").exists() else None
    if earlier is not None:
        changed = [key for key in request if earlier.get(key) != request[key]]
        if changed:
            raise ValueError(
                f"{folder} holds another run (its {' and '.join(changed)} differ); take another folder, or delete it."
            )
        if earlier["finished"]:
            (folder / "checkpoint.safetensors").unlink(missing_ok=True)
            return Clustering.load(folder)
    elif folder.exists() and any(path.name not in _BEFORE_RUN and path.name[0] != "." for path in folder.iterdir()):
        raise ValueError(f"{folder} is not empty and holds no run; choose a new folder.")
    run = {
        "format": 1,
        **request,
        "finished": False,
        "versions": {
            "cgmcr2": __version__,
            "python": platform.python_version(),
            **_versions("torch", "numpy", "scikit-learn"),
        },
    }
    write_json(folder / "run.json", run)
    model.fit(source, folder=folder, tensorboard=tensorboard)
    model.save(folder / "model")
    clustering = _label(model, source, ids)
    clustering.save(folder)
    protocol = Protocol(about["fitted_on"]["part"], source.shape[0], about["fitted_on"]["part"], source.shape[0])
    run |= {"settings": dataclasses.asdict(model.settings_), "protocol": f"labels.csv: {protocol}"}
    run["agreement"] = round(model.calibration_.agreement, 4)
    if model.choice_:
        run["choice"] = dataclasses.asdict(model.choice_)
    if model.finished_:
        run["finished"] = True
    write_json(folder / "run.json", run)
    if model.finished_:
        (folder / "checkpoint.safetensors").unlink(missing_ok=True)
    return clustering


@dataclasses.dataclass
class Run:
    """A run folder that has a model."""

    folder: Path
    info: dict[str, Any]
    model: CgMCR2

    def predict_features(self, features: StrPath, *, part: str = "all") -> Clustering:
        """Label (a part of) a feature file with the cluster head."""
        source, ids, _ = self._read(features, part)
        return self.predict_source(source, ids)

    def predict_source(self, source: FeatureSource, ids: Sequence[str]) -> Clustering:
        """Label ``source``; clusters that were renamed or merged in the run's labels are so here."""
        kept = Clustering.load(self.folder)
        clustering = _label(self.model, source, ids, kept)
        for gone, target in kept.merged.items():
            clustering = clustering.merge([target, gone])
        return clustering.with_names(kept.names)

    def evaluate(
        self, features: StrPath, *, part: str = "test", labels: str = "labels", spectral: bool = False
    ) -> Evaluation:
        """Compare with the labels of a feature file; its rows are those of ``part``, all where there is no split."""
        file = load_feature_file(features, labels=labels)
        if file.labels is None:
            raise ValueError(f"{features} has no {labels!r} to compare with; give a file with labels.")
        source, _, name = self._read(features, part, file)
        predicted = self.model.spectral_labels(source) if spectral else self.model.predict(source)
        scores = score_labels(np.asarray(file.labels)[file.rows(part)], predicted)
        sizes = np.bincount(predicted, minlength=self.model.n_clusters_).tolist()
        fitted = self.info["fitted_on"]
        by = "spectral" if spectral else "head"
        return Evaluation(scores, sizes, Protocol(fitted["part"], fitted["rows"], name, source.shape[0], by))  # type: ignore[arg-type]

    def _read(
        self, features: StrPath, part: str, file: FeatureFile | None = None
    ) -> tuple[FeatureSource, list[str], str]:
        file = file or load_feature_file(features)
        self.check_encoder(file.fingerprint, file.features.shape[1], str(features))
        source, ids, name = select_part(file, part)
        check_finite(source)
        return source, ids, name

    def check_encoder(self, fingerprint: str | None, width: int, what: str) -> None:
        """Refuse features that another encoder made: by its fingerprint where both are known, else by their width."""
        fitted = self.info["encoder"]
        if fitted and fingerprint and fitted != fingerprint:
            raise ValueError(
                f"{what} was made by another encoder ({fingerprint}) than {self.folder} ({fitted}); use the same."
            )
        if width != self.model.n_features_in_:
            raise ValueError(
                f"{what} has rows of width {width}, but {self.folder} was fitted on width {self.model.n_features_in_}; "
                "use features of the same encoder."
            )


def open_run(folder: StrPath, *, device: str = "auto") -> Run:
    """Open a run folder; one that training has not finished has no model yet."""
    folder = Path(folder)
    info = read_run(folder)
    if not (folder / "model" / "config.json").exists():
        raise ValueError(f"{folder} is an unfinished run; give its command again and it goes on.")
    model = CgMCR2.load(folder / "model")
    model.device = device
    return Run(folder, info, model)


def read_run(folder: Path) -> dict[str, Any]:
    path = folder / "run.json"
    if not path.is_file():
        raise FileNotFoundError(f"{folder} is not a run folder: it has no run.json; cgmcr2 fit makes one.")
    try:
        info: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if info["format"] != 1:
            raise ValueError(f"its format is {info['format']}")
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path} is damaged or of another version ({error}); make the run anew.") from error
    return info


def select_part(file: FeatureFile, part: str) -> tuple[FeatureSource, list[str], str]:
    rows = file.rows(part)
    if not len(rows):
        raise ValueError(f"The features have no rows in {PARTS[part]}; choose another part.")
    ids = [file.ids[row] for row in rows] if file.ids else [str(row) for row in rows]
    if file.split is None or part == "all":
        return file.features, ids, PARTS["all"]
    features = file.features
    return (features[rows] if type(features) is np.ndarray else Subset(features, rows)), ids, PARTS[part]


def _label(model: CgMCR2, source: FeatureSource, ids: Sequence[str], fitted: Clustering | None = None) -> Clustering:
    """Label ``source``; what is unusual is told by the rows that were ``fitted``, or by these themselves."""
    probabilities, Z = model.predict_proba(source), model.transform(source)
    labels: npt.NDArray[np.int64] = probabilities.argmax(1)
    merged = fitted.merged if fitted else {}
    joined = np.array([merged.get(c, c) for c in range(model.n_clusters_)])[labels]  # as the fitted rows are
    known = (fitted.embedding, fitted.labels) if fitted is not None and fitted.embedding is not None else None
    return Clustering(ids, labels, probabilities=probabilities, embedding=Z, outlier=outlier_scores(Z, joined, known))


def _parameters(model: CgMCR2) -> dict[str, Any]:
    hidden = ("device", "verbose")  # where and how loudly: not what
    return {name: value for name, value in model.get_params().items() if value is not None and name not in hidden}


def _versions(*names: str) -> dict[str, str]:
    return {name: metadata.version(name) for name in names}
