"""Jobs: one fit of one method on one feature file, usually in a separate process.

``python -m cgmcr2.experiments.job JOB.json`` writes the result to ``JOB.result.json``.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import shutil
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from cgmcr2._files import replacing, write_json
from cgmcr2._random import sample_rows
from cgmcr2.baselines import METHODS, make
from cgmcr2.consensus import ConsensusClustering
from cgmcr2.estimator import CgMCR2
from cgmcr2.evaluation import score_labels
from cgmcr2.features.sources import FeatureFile, read_rows
from cgmcr2.pretrain.estimators import CLUSTERERS, make_clusterer
from cgmcr2.training import PRESETS, Settings, resolve, train

from .choices import Part
from .image_files import feature_rows, is_image_file, load_input_file

SILHOUETTE_ROWS = 2000  # sample size, because the silhouette compares all pairs of rows
CONSENSUS = "consensus"  # name of ConsensusClustering, the initial partition of CgMCR² alone
NO_TEXT_EMBEDDINGS = "needs text embeddings of nouns: an array 'text' in the .npz, or the setting tac.text=FILE"

Int64 = npt.NDArray[np.int64]
JobResult = dict[str, Any]  # scores, cost and protocol, or "error"


@dataclasses.dataclass(frozen=True)
class Job:
    """Specification of one fit."""

    features: str
    method: str
    seed: int
    n_clusters: int
    settings: dict[str, Any]
    labels: str  # name of the label array in the feature file
    output: str  # folder in which labels/KEY.npy is saved
    name: str = ""  # unique key; default: METHOD-SEED
    title: str = ""  # displayed name; default: the method
    part: Part = "test"  # rows to score
    fit_all: bool = False  # fit the test rows too, if they are scored and the file has a split
    max_rows: int = 0  # maximum number of rows to fit, and to score; 0: no limit
    spectral: bool = False  # also score spectral clustering of CgMCR²'s embedding
    timing_batch: int = 0  # time iterations at this batch size instead of scoring; 0: fit and score

    @property
    def key(self) -> str:
        """Identifier in ``runs.jsonl`` and in file names."""
        return self.name or f"{self.method}-{self.seed}"

    @property
    def description(self) -> str:
        return f"{self.title or self.method}, seed {self.seed}"


def run_job(job: Job) -> JobResult:
    """Fit, predict and score; save the predicted labels as ``labels/KEY.npy``."""
    file = load_input_file(job.features, labels=job.labels)
    if job.timing_batch:
        return time_iterations(job, file)
    fit_rows, test_rows, protocol = _select_rows(job, file)
    model = _make_model(job)
    checkpoints = _checkpoints(job)
    if job.method in CLUSTERERS:
        model.set_params(folder=checkpoints)
    X = _read(job, file, test_rows)
    X_fit = X if fit_rows is test_rows else _read(job, file, fit_rows)
    scored = np.isin(fit_rows, test_rows)  # fitted rows to score; none if the test rows are unseen
    start = time.perf_counter()
    model.fit(X_fit)
    predicted: Int64 = model.labels_[scored] if scored.any() else model.predict(X)
    seconds = time.perf_counter() - start
    with replacing(Path(job.output) / "labels" / f"{job.key}.npy") as temporary:
        np.save(temporary, predicted)
    result: JobResult = {
        "seconds": seconds,
        "memory_mb": peak_memory(),
        "clusters": len(np.unique(predicted)),
        "silhouette": silhouette(feature_rows(file, test_rows), predicted),
        "protocol": protocol,
    }
    if file.labels is not None:
        classes = np.asarray(file.labels)[test_rows]
        result |= score_labels(classes, predicted)._asdict()
        if job.spectral:
            result["spectral"] = score_labels(classes, model.spectral_labels(X))._asdict()
    shutil.rmtree(checkpoints, ignore_errors=True)
    return result


def _checkpoints(job: Job) -> Path:
    """Folder of the checkpoints of a method on images; other settings have another one."""
    values = json.dumps(dataclasses.asdict(job), sort_keys=True, default=str)
    return Path(job.output) / ".checkpoints" / f"{job.key}-{hashlib.sha256(values.encode()).hexdigest()[:8]}"


def _read(job: Job, file: FeatureFile, rows: Int64) -> npt.NDArray[Any]:
    """The images or features of ``rows`` that the method takes."""
    if job.method not in CLUSTERERS:
        return feature_rows(file, rows)
    if not is_image_file(file):
        raise ValueError(f"{job.method} clusters images, but {job.features} has features; give an .npz with 'images'.")
    return np.asarray(file.features[rows])


def _select_rows(job: Job, file: FeatureFile) -> tuple[Int64, Int64, str]:
    """Return the rows to fit, the rows to score (the same object if they are the same) and the protocol."""
    fit_rows = limit_rows(file.rows("train"), job.max_rows)
    test_rows = limit_rows(file.rows("test"), job.max_rows)
    if file.split is None or not len(fit_rows) or not len(test_rows) or job.part == "all":
        rows = limit_rows(file.rows("all"), job.max_rows)
        return rows, rows, f"fitted and labelled all rows ({len(rows):,} rows)"
    if job.part == "train":
        return fit_rows, fit_rows, f"fitted and labelled split 0 ({len(fit_rows):,} rows)"
    if job.fit_all:
        rows = np.sort(np.concatenate([fit_rows, test_rows]))
        return rows, test_rows, f"fitted on all rows ({len(rows):,} rows), scored on split 1 ({len(test_rows):,} rows)"
    protocol = f"fitted on split 0 ({len(fit_rows):,} rows), predicted split 1 ({len(test_rows):,} rows)"
    return fit_rows, test_rows, protocol


def limit_rows(rows: Int64, max_rows: int) -> Int64:
    """Return a fixed random sample of at most ``max_rows`` rows; 0 means no limit."""
    return rows[sample_rows(len(rows), max_rows, np.random.default_rng(0))] if max_rows else rows


def time_iterations(job: Job, file: FeatureFile) -> JobResult:
    """Measure time and memory of one fine-tuning iteration at batch size ``job.timing_batch``.

    The time is the minimum over several iterations, because other load on the machine can only slow them down.
    """
    rows = file.rows("all")[: job.timing_batch]
    if len(rows) < job.timing_batch:
        raise ValueError(f"{job.features} has {len(rows)} rows, but timing needs a batch of {job.timing_batch}.")
    X = read_rows(file.features, rows)
    settings = {**job.settings, "batch_size": job.timing_batch, "warmup_epochs": 0}  # an epoch is one step

    def fastest_step(steps: int) -> float:
        complete = _resolve(job, X.shape, {**settings, "finetune_epochs": steps})
        return float(min(record["seconds"] for record in train(X, job.n_clusters, complete, seed=job.seed).history))

    first = fastest_step(1)  # includes one-time costs
    return {"seconds_per_iteration": fastest_step(2 if first > 1 else 40), "memory_mb": peak_memory()}


def _resolve(job: Job, shape: tuple[int, ...], settings: dict[str, Any]) -> Settings:
    return resolve(job.method, shape[0], job.n_clusters, shape[1], settings)  # type: ignore[arg-type]


def _make_model(job: Job) -> Any:
    if job.method in PRESETS:
        return CgMCR2(job.n_clusters, preset=job.method, random_state=job.seed, settings=job.settings)
    if job.method == CONSENSUS:
        return ConsensusClustering(job.n_clusters, random_state=job.seed, **job.settings)
    if job.method in CLUSTERERS:
        return make_clusterer(job.method, job.n_clusters, random_state=job.seed, **job.settings)
    settings = dict(job.settings)
    if job.method == "tac" and "text" not in settings:
        settings["text"] = text_embeddings(job.features)
    return make(job.method, job.n_clusters, job.seed, **settings)


def complete_settings(job: Job, n: int, D: int) -> dict[str, Any]:
    """Return all settings of the method for n rows of width D, including defaults, as JSON-serialisable values.

    They identify a finished run: if a default changes, the run is repeated.
    """
    try:
        settings = check_settings(job, n, D)
    except (TypeError, ValueError):  # invalid settings are reported by the run
        settings = job.settings
    plain = {name: value for name, value in settings.items() if not isinstance(value, np.ndarray)}
    values: dict[str, Any] = json.loads(json.dumps(plain, default=str))
    return values


def check_settings(job: Job, n: int, D: int) -> dict[str, Any]:
    """Return all settings of the method for n rows of width D; unknown or invalid ones raise an error."""
    if "n_clusters" in job.settings:
        raise ValueError(f"The number of clusters is the same for all methods; leave out {job.method}.n_clusters.")
    if job.method in PRESETS:
        resolved = dataclasses.asdict(_resolve(job, (n, D), job.settings))
        return {"preset": job.method, "n_clusters": job.n_clusters, **resolved}
    model = _make_model(job)
    settings: dict[str, Any] = model.get_params()
    if job.method in CLUSTERERS:
        settings["training"] = model.training_settings()
    return settings


def text_embeddings(features: str) -> npt.NDArray[Any] | None:
    """Return the array ``text`` of an .npz (embeddings of nouns, for TAC), or None if there is none."""
    if Path(features).suffix.lower() != ".npz":
        return None
    with np.load(features, allow_pickle=False) as archive:
        return np.asarray(archive["text"]) if "text" in archive else None


def silhouette(X: npt.NDArray[np.float32], labels: Int64) -> float | None:
    """Mean silhouette with cosine distance over a fixed sample of rows; None if it is undefined."""
    from sklearn.metrics import silhouette_score

    rows = sample_rows(len(X), SILHOUETTE_ROWS, np.random.default_rng(0))
    if not 1 < len(np.unique(labels[rows])) < len(rows):
        return None
    return float(silhouette_score(X[rows], labels[rows], metric="cosine"))


def peak_memory() -> float | None:
    """Peak resident memory of this process in MB; None if the system does not report it."""
    status = Path("/proc/self/status")
    if status.exists():  # getrusage would include the parent's memory at the time of the fork
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
    try:
        import resource
    except ImportError:  # Windows
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1 << 20 if sys.platform == "darwin" else 1 << 10)


def attempt_job(job: Job) -> JobResult:
    """Return the result of a job, or ``{"error": message}`` if it fails."""
    try:
        return run_job(job)
    except Exception as error:  # any failure becomes a row of the table
        return {"error": " ".join(str(error).split()) or type(error).__name__}


def method_names() -> list[str]:
    """Return the names of all methods: the presets of CgMCR2, the consensus alone, the baselines, those on images."""
    return [*PRESETS, CONSENSUS, *METHODS, *CLUSTERERS]


def main(path: Path) -> None:
    job = Job(**json.loads(path.read_text(encoding="utf-8")))
    write_json(path.with_suffix(".result.json"), attempt_job(job))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
