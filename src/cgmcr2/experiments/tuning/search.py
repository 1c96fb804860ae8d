"""Find the smallest feasible gamma, then search eps, gamma and the number of neighbours with Optuna."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import shlex
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

import numpy as np
import numpy.typing as npt
import torch
from sklearn.exceptions import ConvergenceWarning

from cgmcr2._progress import progress_bar
from cgmcr2._random import Stream, generator, sample_rows
from cgmcr2.consensus.partitions import size_entropy
from cgmcr2.consensus.stability import calibrate, stability_rows
from cgmcr2.evaluation import score_labels
from cgmcr2.experiments.choices import Part, TuningScore
from cgmcr2.features.sources import load_feature_file, read_rows
from cgmcr2.training import Settings, resolve, train
from cgmcr2.training.monitor import LIVE_SHARE

from .result import SearchOutcome, Trial, TuningResult
from .study import Evaluate, Point, Space, TrialStudy, import_optuna, open_journal, three_digits

BLOCK = 2048  # rows per forward pass

Float32 = npt.NDArray[np.float32]
Int64 = npt.NDArray[np.int64]


@dataclasses.dataclass(frozen=True)
class SearchConfig:
    """Bounds of the search. A gamma is feasible if the clusters do not collapse."""

    first_gamma: float = 1 / 16  # first gamma to try, relative to safe_gamma; far below feasible values
    max_doublings: int = 12  # gammas to try, each twice the previous one
    min_live: float = 0.75  # fraction of live clusters at a feasible gamma; short training runs may leave some unused
    gamma_range: float = 32  # upper bound of gamma, relative to the smallest feasible one
    eps: tuple[float, float] = (0.1, 1.0)  # bounds of eps; they contain the paper's values


def tune(
    features: str | os.PathLike[str],
    n_clusters: int,
    folder: str | os.PathLike[str],
    *,
    by: TuningScore = "stability",
    labels: str = "labels",
    preset: str = "auto",
    settings: Mapping[str, Any] | None = None,
    trials: int = 20,
    seeds: int = 1,
    rows: int = 5000,
    part: Part = "train",
    seed: int = 0,
    progress: bool = False,
) -> TuningResult:
    """Search eps, gamma and the number of neighbours on a feature file. Finished trials are not repeated.

    First, gamma is doubled until the clusters no longer collapse. Then ``trials`` settings are tried. The first two are
    the preset, and the preset with the smallest feasible gamma. All others are proposed by Optuna's multivariate
    ``TPESampler``, which samples at random until ``STARTUP_TRIALS`` (8) trials have finished.

    Parameters
    ----------
    features : path
        Feature file or feature store.
    n_clusters : int
        Number of clusters.
    folder : path
        Output folder. An interrupted search resumes; a larger ``trials`` extends a finished one.
    by : {"stability", "labels"}
        Score to maximise: the stability (mean agreement with independent k-means partitions), which needs no labels,
        or the accuracy on the fitted rows. In the second case, every output says that labels were used.
    labels : str
        Name of the label array in the file, for ``by="labels"``.
    preset : {"auto", "paper", "reference"}
        Preset that provides all other settings.
    settings : mapping
        Settings that replace the preset's, in all trials.
    trials : int
        Number of settings to try.
    seeds : int
        Training runs per trial; the score is their mean.
    rows : int
        Maximum number of rows, sampled at random.
    part : {"train", "test", "all"}
        Rows to use if the file has a split.
    seed : int
        Random seed.
    progress : bool
        Show progress bars.

    Returns
    -------
    result : TuningResult
    """
    if by not in get_args(TuningScore):
        raise ValueError(f"There is no score {by!r}; choose from {', '.join(get_args(TuningScore))}.")
    for name, value in (("trials", trials), ("seeds", seeds)):
        if value < 1:
            raise ValueError(f"The number of {name} is {value}; give at least 1.")
    import_optuna()  # fail before training if it is missing
    file = load_feature_file(features, labels=labels)
    selected = file.rows(part)
    if not len(selected):
        raise ValueError(f"{features} has no rows of the part {part!r}; choose train, test or all.")
    selected = selected[sample_rows(len(selected), rows, generator(seed, Stream.TUNING_ROWS))]
    X = read_rows(file.features, selected)
    if not 2 <= n_clusters <= len(X):
        raise ValueError(f"The number of clusters is {n_clusters}; give 2 to {len(X)}, the number of rows.")
    if by == "labels" and file.labels is None:
        raise ValueError(f"{features} has no label array {labels!r}; add it, or choose the score 'stability'.")
    classes = np.asarray(file.labels)[selected] if by == "labels" else None
    fixed = dict(settings or {})
    base = resolve(preset, len(X), n_clusters, X.shape[1], fixed)  # type: ignore[arg-type]
    request = {
        "features": str(Path(features).resolve()),
        "rows": list(X.shape),
        "part": part,
        "n_clusters": n_clusters,
        "scored_by": by,
        "labels": labels if by == "labels" else None,
        "seed": seed,
        "seeds": seeds,
        "settings": json.loads(json.dumps(dataclasses.asdict(base))),
    }
    for name in searched_settings(base):
        if name in fixed:
            raise ValueError(f"{name} is part of the search and cannot be fixed; remove it from the settings.")

    def evaluate(point: Point, run_seed: int) -> dict[str, float]:
        return evaluate_settings(X, classes, dataclasses.replace(base, **point), n_clusters, run_seed, progress)

    storage = open_journal(Path(folder), request)
    outcome = search_settings(
        evaluate, base, len(X), n_clusters, storage, trials=trials, seeds=range(seed, seed + seeds), progress=progress
    )
    command = _fit_command(features, n_clusters, preset, part, {**fixed, **outcome.best.settings}, by)
    return TuningResult(**vars(outcome), folder=Path(folder), by=by, request=request, command=command)


def search_settings(
    evaluate: Evaluate,
    base: Settings,
    n: int,
    n_clusters: int,
    storage: Any,
    *,
    trials: int,
    seeds: range,
    config: SearchConfig | None = None,
    progress: bool = False,
) -> SearchOutcome:
    """Run both stages of the search.

    Parameters
    ----------
    evaluate : callable
        Trains with the given settings and seed, and returns the measures.
    base : Settings
        Settings of the preset; those that are not searched stay the same.
    n : int
        Number of rows.
    n_clusters : int
        Number of clusters.
    storage : JournalStorage
        Optuna storage of the trials.
    trials : int
        Number of settings to try in the second stage.
    seeds : range
        Seeds of each trial; the first stage uses the first seed only.
    config : SearchConfig, optional
        Bounds of the search.
    progress : bool
        Show progress bars.

    Returns
    -------
    outcome : SearchOutcome
    """
    config = config or SearchConfig()
    start: Point = {name: getattr(base, name) for name in searched_settings(base)}
    gamma_study = TrialStudy(storage, "gamma", evaluate, n_clusters=n_clusters, seeds=seeds[:1], objective="live")
    gamma_trials = _find_feasible_gamma(gamma_study, start, safe_gamma(base, n_clusters), config, progress)
    feasible = _is_feasible(gamma_trials[-1], config)
    chosen = gamma_trials[-1] if feasible else gamma_study.best
    if chosen is None:
        raise ValueError(f"Training failed at every gamma: {gamma_trials[-1].error}")
    gamma = chosen.settings["gamma"]

    _, _, neighbours = searched_settings(base)
    space: Space = {
        "eps": config.eps,
        "gamma": (gamma, max(config.gamma_range * gamma, float(base.gamma))),
        neighbours: (3, max_neighbours(base, n, n_clusters)),
    }
    preset = {name: min(max(start[name], low), high) for name, (low, high) in space.items()}
    study = TrialStudy(storage, "search", evaluate, n_clusters=n_clusters, seeds=seeds)
    initial_points = [preset, {**preset, "gamma": gamma}]
    with progress_bar(trials, desc="Search", unit="trials", enabled=progress, initial=len(study.trials)) as bar:
        for number in range(len(study.trials), trials):
            fixed = initial_points[number] if number < len(initial_points) else None
            study.run_trial(space, fixed=fixed, seed=seeds[0])
            bar.update()
    best = study.best
    if best is None:
        raise ValueError(f"Every trial failed; the last error is: {study.trials[-1].error}")
    return SearchOutcome(gamma_trials, study.trials, best, gamma, feasible, config.min_live)


def _find_feasible_gamma(
    study: TrialStudy, start: Point, safe: float, config: SearchConfig, progress: bool
) -> list[Trial]:
    """Try gammas, each twice the previous one, until one is feasible; return the trials."""
    with progress_bar(config.max_doublings, desc="Feasible gamma", unit="trials", enabled=progress) as bar:
        for step in range(len(study.trials), config.max_doublings):
            if study.trials and _is_feasible(study.trials[-1], config):
                break
            point = {**start, "gamma": three_digits(safe * config.first_gamma * 2**step)}
            study.run_trial({name: (value, value) for name, value in point.items()})
            bar.update()
    return study.trials


def _is_feasible(trial: Trial, config: SearchConfig) -> bool:
    return trial.live is not None and trial.live >= config.min_live * trial.clusters


def searched_settings(base: Settings) -> tuple[str, str, str]:
    """Return the names of the searched settings; a graph of all rows has ``neighbours`` in place of ``s``."""
    return "eps", "gamma", "neighbours" if base.graph == "whole" else "s"


def safe_gamma(settings: Settings, k: int) -> float:
    """Return the gamma above which merging clusters increases the objective on every graph.

    This is ``2k / (k - 1)`` for the squared penalty and ``k^2 / sqrt(k - 1)`` for the norm.
    """
    squared = settings.penalty == "squared" and settings.objective == "cgmcr2"
    return 2 * k / (k - 1) if squared else k**2 / math.sqrt(k - 1)


def max_neighbours(settings: Settings, n: int, k: int) -> int:
    """Return the maximum number of neighbours: the mean cluster size in the graph, clipped to 10 to 100."""
    rows = n if settings.graph == "whole" else min(settings.batch_size, n)
    return max(4, min(max(10, rows // k), 100, rows - 1))


def evaluate_settings(
    X: Float32, classes: npt.NDArray[Any] | None, settings: Settings, k: int, seed: int, progress: bool = False
) -> dict[str, float]:
    """Train once on ``X (n, D)`` and return score, number of live clusters, balance and stability.

    The score is the stability, or the accuracy if ``classes (n,)`` are given.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a collapse is an expected outcome here
        trained = train(X, k, settings, seed=seed, progress=progress)
    if not trained.finished:
        raise KeyboardInterrupt
    device = next(trained.network.parameters()).device
    blocks = np.split(X, range(BLOCK, len(X), BLOCK))
    with torch.inference_mode():
        outputs = [trained.network(torch.from_numpy(block).to(device))[1][trained.head] for block in blocks]
    logits = torch.cat(outputs).cpu()
    labels: Int64 = logits.argmax(1).numpy()
    shares = np.bincount(labels, minlength=k) / len(labels)
    sample = stability_rows(len(X), k, seed)
    stability = calibrate(X[sample], logits[sample], k, seed).stability
    evaluation = {
        "live": float((shares >= LIVE_SHARE / k).sum()),
        "balance": size_entropy(labels, k),
        "stability": stability,
        "score": stability,
    }
    if classes is not None:
        scores = score_labels(classes, labels)
        evaluation |= {"acc": scores.acc, "nmi": scores.nmi, "score": scores.acc}
    return evaluation


def _fit_command(
    features: str | os.PathLike[str], k: int, preset: str, part: Part, settings: Mapping[str, Any], by: TuningScore
) -> str:
    words = ["cgmcr2", "fit", str(features), "-k", str(k), "--preset", preset, "-o", "run"]
    words += [] if part == "train" else ["--part", part]
    for name, value in settings.items():
        words += ["--set", f"{name}={f'{value:.12g}' if isinstance(value, float) else value}"]
    return shlex.join(words) + ("  # chosen with labels" if by == "labels" else "")
