"""Find a gamma at which clusters do not collapse, then search eps, gamma and the number of neighbours."""

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
from cgmcr2.consensus.partitions import balance
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
    """Bounds of the search."""

    first_gamma: float = 1 / 16  # relative to the gamma that prevents a collapse on any graph; far below what is needed
    max_doublings: int = 12  # of gamma; then no gamma counts as feasible
    min_live: float = 0.75  # share of live clusters at a feasible gamma; short trainings may leave a cluster unused
    gamma_range: float = 32  # upper bound of gamma, relative to the smallest feasible one
    eps: tuple[float, float] = (0.1, 1.0)  # contains the paper's values


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
    """Search eps, gamma and the number of neighbours on a feature file; trials in ``folder`` are not repeated.

    First gamma is doubled until the clusters no longer collapse. Then ``trials`` settings are tried: the preset, the
    preset at the smallest feasible gamma, random ones, and from the ninth on proposals of Optuna's TPE sampler.

    Parameters
    ----------
    features : path
        Feature file or feature store.
    n_clusters : int
        Number of clusters.
    folder : path
        Output folder. An interrupted search resumes; a larger ``trials`` extends a finished one.
    by : {"stability", "labels"}
        Score to maximise: the stability, which is the agreement with independent partitions and needs no labels, or
        the accuracy on the fitted rows. In the second case every output says that labels were used.
    labels : str
        Name of the array of labels in the file, for ``by="labels"``.
    preset : {"auto", "paper", "reference"}
        Preset that provides all other settings.
    settings : mapping
        Settings in place of the preset's, the same in all trials.
    trials : int
        Number of settings to try.
    seeds : int
        Trainings per trial; the score is their mean.
    rows : int
        Limit on the rows, which are drawn at random.
    part : {"train", "test", "all"}
        Rows to use if the file has a split.
    seed : int
        Random seed.
    progress : bool
        Whether to show progress bars.
    """
    if by not in get_args(TuningScore):
        raise ValueError(f"There is no score {by!r}; choose from {', '.join(get_args(TuningScore))}.")
    for name, value in (("trials", trials), ("seeds", seeds)):
        if value < 1:
            raise ValueError(f"The number of {name} is {value}; give at least 1.")
    import_optuna()  # before the first training
    file = load_feature_file(features, labels=labels)
    selected = file.rows(part)
    if not len(selected):
        raise ValueError(f"{features} has no rows of the part {part!r}; choose train, test or all.")
    selected = selected[sample_rows(len(selected), rows, generator(seed, Stream.TUNING_ROWS))]
    X = read_rows(file.features, selected)
    if not 2 <= n_clusters <= len(X):
        raise ValueError(f"The number of clusters is {n_clusters}; give 2 to {len(X)}, the number of rows.")
    if by == "labels" and file.labels is None:
        raise ValueError(f"{features} has no array {labels!r} to score by; leave out --by labels.")
    classes = np.asarray(file.labels)[selected] if by == "labels" else None
    fixed = dict(settings or {})
    base = resolve(preset, len(X), n_clusters, X.shape[1], fixed)  # type: ignore[arg-type]
    base = dataclasses.replace(base, act_on_collapse=False)  # a collapse must show
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
            raise ValueError(f"{name} is part of the search and cannot be fixed; leave out --set {name}.")

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
    """Run both stages of the search with any function that evaluates settings; ``storage`` keeps the trials.

    ``base`` holds the settings that are not searched, ``n`` is the number of rows.
    """
    config = config or SearchConfig()
    start: Point = {name: getattr(base, name) for name in searched_settings(base)}
    gamma_study = TrialStudy(storage, "gamma", evaluate, n_clusters=n_clusters, seeds=seeds[:1], objective="live")
    gamma_trials = _find_feasible_gamma(gamma_study, start, safe_gamma(base, n_clusters), config, progress)
    feasible = _is_feasible(gamma_trials[-1], config)
    chosen = gamma_trials[-1] if feasible else gamma_study.best
    if chosen is None:
        raise ValueError(f"The training failed at every gamma: {gamma_trials[-1].error}")
    gamma = chosen.settings["gamma"]

    _, _, neighbours = searched_settings(base)
    space: Space = {
        "eps": config.eps,
        "gamma": (gamma, max(config.gamma_range * gamma, float(base.gamma))),
        neighbours: (3, max_neighbours(base, n, n_clusters)),
    }
    preset = {name: min(max(start[name], low), high) for name, (low, high) in space.items()}
    study = TrialStudy(storage, "search", evaluate, n_clusters=n_clusters, seeds=seeds)
    first = [preset, {**preset, "gamma": gamma}]
    with progress_bar(trials, desc="Search", unit="trials", enabled=progress, initial=len(study.trials)) as bar:
        for number in range(len(study.trials), trials):
            study.run_trial(space, fixed=first[number] if number < len(first) else None, seed=seeds[0])
            bar.update()
    best = study.best
    if best is None:
        raise ValueError(f"Every trial failed; the last with: {study.trials[-1].error}")
    return SearchOutcome(gamma_trials, study.trials, best, gamma, feasible, config.min_live)


def _find_feasible_gamma(
    study: TrialStudy, start: Point, safe: float, config: SearchConfig, progress: bool
) -> list[Trial]:
    """Double gamma until it is feasible, at most ``config.max_doublings`` times; return the trials."""
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
    """Return the names of the searched settings; the whole-data graph has ``neighbours`` in place of ``s``."""
    return "eps", "gamma", "neighbours" if base.graph == "whole" else "s"


def safe_gamma(settings: Settings, k: int) -> float:
    """Return the gamma above which merging clusters increases the objective on any graph.

    It is ``2k / (k - 1)`` for the squared penalty and ``k^2 / sqrt(k - 1)`` for the norm.
    """
    squared = settings.penalty == "squared" and settings.objective == "cgmcr2"
    return 2 * k / (k - 1) if squared else k**2 / math.sqrt(k - 1)


def max_neighbours(settings: Settings, n: int, k: int) -> int:
    """Return the upper bound of the number of neighbours: an even share of the graph's rows, within 10 to 100."""
    rows = n if settings.graph == "whole" else min(settings.batch_size, n)
    return max(4, min(max(10, rows // k), 100, rows - 1))


def evaluate_settings(
    X: Float32, classes: npt.NDArray[Any] | None, settings: Settings, k: int, seed: int, progress: bool = False
) -> dict[str, float]:
    """Train once on ``X (n, D)`` and return the score, the live clusters and their balance.

    The score is the label-free stability, or the accuracy if ``classes (n,)`` are given.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a collapse is a result here
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
        "balance": balance(labels, k),
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
