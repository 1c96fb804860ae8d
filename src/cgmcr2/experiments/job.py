"""One run of one method on one feature file: what comparisons and tables start in a process of its own.

``python -m cgmcr2.experiments.job JOB.json``: the job's result is written to the path that it names.
"""

from __future__ import annotations

import dataclasses
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from cgmcr2._files import replacing, write_json
from cgmcr2.baselines import METHODS, make
from cgmcr2.estimator import CgMCR2
from cgmcr2.evaluation import score_labels
from cgmcr2.features.sources import FeatureFile, load_feature_file, read_rows
from cgmcr2.training import train

PRESETS = ("auto", "paper", "reference")  # of CgMCR2 itself
SAMPLE = 2000  # rows that the silhouette is taken of: it compares all pairs

Int64 = npt.NDArray[np.int64]


@dataclasses.dataclass(frozen=True)
class Job:
    """What is to be run."""

    features: str
    method: str
    seed: int
    n_clusters: int
    settings: dict[str, Any]
    labels: str  # the array of labels in the file
    output: str  # the folder of the comparison
    name: str = ""  # of its files and its line, where method and seed are not enough
    label: str = ""  # for people, likewise
    part: str = "test"  # the rows that are judged: of the test split, of the train split, or all
    rows: int = 0  # at most so many rows are fitted, and at most so many judged; 0: all
    spectral: bool = False  # CgMCR²'s embedding is clustered by spectral clustering too
    timing: int = 0  # only time an iteration on so many rows

    @property
    def stem(self) -> str:
        return self.name or f"{self.method}-{self.seed}"

    @property
    def title(self) -> str:
        return f"{self.label or self.method}, seed {self.seed}"


def run(job: Job) -> dict[str, Any]:
    """Fit, predict and judge; the predicted labels are saved as ``labels/STEM.npy``."""
    file = load_feature_file(job.features, labels=job.labels)
    if job.timing:
        return time_iteration(job, file)
    fitted, judged, protocol = _rows(job, file)
    model = _model(job)
    if fitted is not judged and not getattr(model, "can_predict", True):
        fitted, protocol = judged, f"fitted on split 1 ({len(judged):,} rows) and labelled it; it cannot predict"
    X = read_rows(file.features, judged)
    X_fit = X if fitted is judged else read_rows(file.features, fitted)
    start = time.perf_counter()
    predicted: Int64 = model.fit(X_fit).labels_ if X_fit is X else model.fit(X_fit).predict(X)
    seconds = time.perf_counter() - start
    with replacing(Path(job.output) / "labels" / f"{job.stem}.npy") as temporary:
        np.save(temporary, predicted)
    result: dict[str, Any] = {
        "seconds": seconds,
        "memory_mb": peak_memory(),
        "clusters": len(np.unique(predicted)),
        "silhouette": silhouette(X, predicted),
        "protocol": protocol,
    }
    if file.labels is not None:
        known = np.asarray(file.labels)[judged]
        result |= score_labels(known, predicted)._asdict()
        if job.spectral:
            result["spectral"] = score_labels(known, model.spectral_labels(X))._asdict()
    return result


def _rows(job: Job, file: FeatureFile) -> tuple[Int64, Int64, str]:
    """The rows to fit, the rows to judge (the same array where they are the same), and both in words."""
    fitted, judged = _some(file.rows("train"), job.rows), _some(file.rows("test"), job.rows)
    if file.split is None or not len(fitted) or not len(judged) or job.part == "all":
        rows = _some(file.rows("all"), job.rows)
        return rows, rows, f"fitted on all rows ({len(rows):,} rows) and labelled it"
    if job.part == "train":
        return fitted, fitted, f"fitted on split 0 ({len(fitted):,} rows) and labelled it"
    return fitted, judged, f"fitted on split 0 ({len(fitted):,} rows), predicted split 1 ({len(judged):,} rows)"


def _some(rows: Int64, most: int) -> Int64:
    """At most so many of the rows, the same ones each time."""
    if not most or len(rows) <= most:
        return rows
    return np.sort(np.random.default_rng(0).choice(rows, most, replace=False))


def time_iteration(job: Job, file: FeatureFile) -> dict[str, Any]:
    """Seconds that an iteration of the fine-tuning takes on a batch of ``timing`` rows, and the memory it needs.

    The fewest of several goes: what else the machine does only adds to it.
    """
    rows = file.rows("all")[: job.timing]
    if len(rows) < job.timing:
        raise ValueError(f"{job.features} has {len(rows)} rows; to time a batch of {job.timing} it needs as many.")
    X = read_rows(file.features, rows)
    settings = {**job.settings, "batch_size": job.timing, "warmup_epochs": 0}  # an epoch is one step

    def seconds(steps: int) -> list[float]:
        model = CgMCR2(job.n_clusters, preset=job.method, **{**settings, "finetune_epochs": steps})
        history = train(X, job.n_clusters, model.plan(*X.shape), seed=job.seed).history
        return [record["seconds"] for record in history]

    first = min(seconds(1))  # with what is done only once
    return {"seconds_per_iteration": min(seconds(2 if first > 1 else 40)), "memory_mb": peak_memory()}


def _model(job: Job) -> Any:
    if job.method in PRESETS:
        return CgMCR2(job.n_clusters, preset=job.method, random_state=job.seed, **job.settings)
    settings = dict(job.settings)
    if job.method == "tac" and "text" not in settings:
        settings["text"] = text_embeddings(job.features)
    return make(job.method, job.n_clusters, job.seed, **settings)


def complete_settings(job: Job, n: int, D: int) -> dict[str, Any]:
    """Every setting of the job's method for n rows of width D, those that were not given included, as JSON has them."""
    try:
        model = _model(job)
        settings = model.get_params() | (dataclasses.asdict(model.plan(n, D)) if isinstance(model, CgMCR2) else {})
    except (TypeError, ValueError):  # the run itself will say what is wrong with them
        settings = job.settings
    kept = {name: value for name, value in settings.items() if not isinstance(value, np.ndarray)}
    plain: dict[str, Any] = json.loads(json.dumps(kept, default=str))
    return plain


def text_embeddings(features: str) -> npt.NDArray[Any] | None:
    """The array ``text`` of an .npz of features, where it has one: embeddings of nouns, for TAC."""
    if Path(features).suffix.lower() != ".npz":
        return None
    with np.load(features, allow_pickle=False) as archive:
        return np.asarray(archive["text"]) if "text" in archive else None


def silhouette(X: npt.NDArray[np.float32], labels: Int64) -> float | None:
    """The mean silhouette by cosine distance of a fixed sample of the rows; None where there is but one cluster."""
    from sklearn.metrics import silhouette_score

    rows = np.arange(len(X))
    if len(rows) > SAMPLE:
        rows = np.random.default_rng(0).choice(rows, SAMPLE, replace=False)
    if not 1 < len(np.unique(labels[rows])) < len(rows):
        return None
    return float(silhouette_score(X[rows], labels[rows], metric="cosine"))


def peak_memory() -> float | None:
    """The most memory that this process has held, in MB; None where the system does not tell."""
    status = Path("/proc/self/status")
    if status.exists():  # getrusage would count what the parent held when it started us
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
    try:
        import resource
    except ImportError:  # Windows
        return None
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most / (1 << 20 if sys.platform == "darwin" else 1 << 10)


def attempt(job: Job) -> dict[str, Any]:
    """The result of a job, or ``{"error": what went wrong}``."""
    try:
        return run(job)
    except Exception as error:  # whatever it is, it is this method's row
        return {"error": " ".join(str(error).split()) or type(error).__name__}


def main(path: Path) -> None:
    job = Job(**json.loads(path.read_text(encoding="utf-8")))
    write_json(path.with_suffix(".result.json"), attempt(job))


def known_methods() -> list[str]:
    """Every method that can be compared: CgMCR2 by its presets, then the baselines."""
    return [*PRESETS, *METHODS]


if __name__ == "__main__":
    main(Path(sys.argv[1]))
