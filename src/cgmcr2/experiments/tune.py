"""A feasible gamma, then the best of eps, gamma and s: without labels, or with them and then marked so everywhere."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import shlex
import sys
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from sklearn.exceptions import ConvergenceWarning
from tqdm import tqdm

from cgmcr2._files import write_json
from cgmcr2.consensus import calibrate
from cgmcr2.estimator import CgMCR2
from cgmcr2.evaluation import score_labels
from cgmcr2.features.sources import load_feature_file, read_rows
from cgmcr2.training import Settings, train
from cgmcr2.training.monitor import LIVE_SHARE

from .suggest import Point, suggest, three_digits
from .tuning import LIVE, SCORES, Run, Tuning, live, percent, rank

LADDER = 12  # doublings of gamma at most, from a sixteenth of the gamma that is safe for every graph
RANGE = 32  # the search goes so many times above the smallest feasible gamma

Float32 = npt.NDArray[np.float32]
Int64 = npt.NDArray[np.int64]


def tune(
    features: str | os.PathLike[str],
    n_clusters: int,
    folder: str | os.PathLike[str],
    *,
    by: str = "agreement",
    labels: str = "labels",
    preset: str = "auto",
    settings: Mapping[str, Any] | None = None,
    trials: int = 20,
    seeds: int = 1,
    rows: int = 5000,
    part: str = "train",
    seed: int = 0,
    progress: bool = False,
    tell: Callable[[str], None] | None = None,
) -> Tuning:
    """Search eps, gamma and s for a feature file into ``folder``; runs that are there are not done again.

    First gamma is doubled until the clusters no longer collapse (``docs/tune.md``). Then ``trials`` settings are tried,
    the preset's own and the feasible gamma first, each with ``seeds`` seeds on at most ``rows`` rows. ``by``:
    "agreement", the label-free quality of docs/trust.md, or "labels", the accuracy of the rows fitted; then every
    output says so. ``settings`` are kept fixed. With Optuna (the extra ``tune``) the trials follow what was found;
    without it they fill the space.
    """
    if by not in SCORES:
        raise ValueError(f"There is no score {by!r}; there are {', '.join(SCORES)}.")
    for name, value in (("trials", trials), ("seeds", seeds)):
        if value < 1:
            raise ValueError(f"The number of {name} is {value}; give at least 1.")
    file = load_feature_file(features, labels=labels)
    chosen = file.rows(part)
    if not len(chosen):
        raise ValueError(f"{features} has no rows of the part {part!r}; choose train, test or all.")
    if len(chosen) > rows:
        chosen = np.sort(np.random.default_rng([seed, 3]).choice(chosen, rows, replace=False))
    X, y = read_rows(file.features, chosen), None
    if by == "labels":
        if file.labels is None:
            raise ValueError(f"{features} has no array {labels!r} to score by; leave out --by labels.")
        y = np.asarray(file.labels)[chosen]
    fixed = dict(settings or {})
    plan = CgMCR2(n_clusters, preset=preset, **fixed).plan(*X.shape)
    plan = dataclasses.replace(plan, act_on_collapse=False)  # a collapse is what is looked for
    # where the graph is that of the whole data set, its edges at each point are what s is in a batch
    names = ("eps", "gamma", "neighbours" if plan.graph == "whole" else "s")
    twice = [name for name in names if name in fixed]
    if twice:
        raise ValueError(f"{twice[0]} is searched for and cannot be set too; leave out --set {twice[0]}.")
    folder = Path(folder)
    request = {
        "features": str(Path(features).resolve()),
        "rows": list(X.shape),
        "part": part,
        "n_clusters": n_clusters,
        "scored_by": by,
        "labels": labels if by == "labels" else None,
        "seed": seed,
        "seeds": seeds,
        "settings": json.loads(json.dumps(dataclasses.asdict(plan))),
    }
    _claim(folder, request)
    log = _Log(folder, by, names, tell)

    ladder: list[Run] = []
    safe = _safe_gamma(plan, n_clusters)
    with tqdm(total=LADDER, unit="run", desc="feasible gamma", disable=not progress, leave=False) as bar:
        for step in range(LADDER):
            gamma = three_digits(safe / 16 * 2**step)
            point = {"eps": plan.eps, "gamma": gamma, names[2]: getattr(plan, names[2])}
            ladder.append(log.run("gamma", point, seed, lambda p, s: _fit(X, y, n_clusters, plan, p, s)))
            bar.update()
            if _is_feasible(ladder[-1]):
                break
    feasible = _is_feasible(ladder[-1])
    gamma = float((ladder[-1] if feasible else max(ladder, key=lambda run: run["live"] or 0))["gamma"])

    space = {
        "eps": (0.1, 1.0),
        "gamma": (gamma, max(RANGE * gamma, plan.gamma)),
        names[2]: (3, _most_neighbours(plan, len(X), n_clusters)),
    }
    preset_own: Point = {name: min(max(getattr(plan, name), low), high) for name, (low, high) in space.items()}
    first = [preset_own, {**preset_own, "gamma": gamma}]
    done: list[Run] = []
    with tqdm(total=trials * seeds, unit="run", desc="search", disable=not progress, leave=False) as bar:
        for number in range(trials):
            point = first[number] if number < len(first) else suggest(space, done, number, seed)
            own = []
            for each in range(seed, seed + seeds):
                own.append(log.run("search", point, each, lambda p, s: _fit(X, y, n_clusters, plan, p, s)))
                bar.update()
            done.append(_mean(own))
    best = min(done, key=rank)
    if best["score"] is None:
        raise ValueError(f"Every trial failed; the last one said: {done[-1]['error']}")
    command = _command(features, n_clusters, preset, part, fixed, {name: best[name] for name in names}, by)
    return Tuning(folder, by, names, ladder, done, gamma, feasible, best, command)


class _Log:
    """``runs.jsonl``: a run that is there is not done again."""

    def __init__(self, folder: Path, by: str, names: Sequence[str], tell: Callable[[str], None] | None) -> None:
        self.path, self.by, self.names, self.tell = folder / "runs.jsonl", by, names, tell
        self.runs: dict[str, Run] = {}
        for line in self.path.read_text(encoding="utf-8").splitlines() if self.path.exists() else []:
            try:
                run = json.loads(line)
            except json.JSONDecodeError:  # cut short by a crash
                continue
            self.runs[self._key(run, run["seed"])] = run

    def _key(self, point: Mapping[str, Any], seed: int) -> str:
        return json.dumps([seed, *(float(point[name]) for name in self.names)])

    def run(self, stage: str, point: Point, seed: int, fit: Callable[[Point, int], Run]) -> Run:
        known = self.runs.get(self._key(point, seed))
        if known is None or "error" in known:
            start = time.perf_counter()
            try:
                found = fit(point, seed)
            except (ValueError, FloatingPointError) as error:
                found = {"score": None, "live": None, "error": " ".join(str(error).split())}
            known = {**point, "seed": seed, **found, "seconds": time.perf_counter() - start, "scored_by": self.by}
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(known) + "\n")
            self.runs[self._key(point, seed)] = known
            if self.tell:
                values = ", ".join(f"{name} {point[name]:g}" for name in self.names)
                said = known.get("error") or f"{SCORES[self.by]} {percent(known['score'])}, live {live(known)}"
                with tqdm.external_write_mode(file=sys.stderr):
                    self.tell(f"{stage}: {values}: {said}")
        return {"stage": stage, **known}


def _fit(X: Float32, y: Any, k: int, plan: Settings, point: Point, seed: int) -> Run:
    """Train once and judge."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a collapse is a row of the table
        trained = train(X, k, dataclasses.replace(plan, **point), seed=seed)
    if not trained.finished:
        raise KeyboardInterrupt
    where = next(trained.network.parameters()).device

    def logits(rows: Float32) -> torch.Tensor:
        with torch.inference_mode():
            parts = np.split(rows, range(2048, len(rows), 2048))
            return torch.cat(
                [trained.network(torch.from_numpy(part).to(where))[1][trained.head].cpu() for part in parts]
            )

    labels: Int64 = logits(X).argmax(1).numpy()
    shares = np.bincount(labels, minlength=k) / len(labels)
    agreement = calibrate(X, logits, k, seed).agreement
    run: Run = {
        "live": int((shares >= LIVE_SHARE / k).sum()),
        "clusters": k,
        "balance": float(np.exp(-np.sum(shares[shares > 0] * np.log(shares[shares > 0]))) / k),
        "agreement": agreement,
        "score": agreement,
    }
    if y is not None:
        scores = score_labels(y, labels)
        run |= {"acc": scores.acc, "nmi": scores.nmi, "score": scores.acc}
    return run


def _safe_gamma(plan: Settings, k: int) -> float:
    """The gamma above which a collapse does not pay on any graph: docs/gamma.md."""
    k = max(k, 2)
    squared = plan.penalty == "squared" and plan.objective == "cgmcr2"
    return 2 * k / (k - 1) if squared else k**2 / math.sqrt(k - 1)


def _is_feasible(run: Run) -> bool:
    return run["live"] is not None and run["live"] >= LIVE * run["clusters"]


def _most_neighbours(plan: Settings, n: int, k: int) -> int:
    """A cluster's even share of the graph, within 10 ... 100."""
    points = n if plan.graph == "whole" else min(plan.batch_size, n)
    return max(4, min(max(10, points // k), 100, points - 1))


def _mean(runs: Sequence[Run]) -> Run:
    """One line for the seeds of a trial."""
    scores = [run["score"] for run in runs if run["score"] is not None]
    whole = {**runs[0], "score": float(np.mean(scores)) if len(scores) == len(runs) else None}
    for name in ("live", "balance", "agreement", "seconds"):
        values = [run[name] for run in runs if run.get(name) is not None]
        whole[name] = float(np.mean(values)) if values else None
    return {**whole, **next((run for run in runs if "error" in run), {})} if whole["score"] is None else whole


def _command(
    features: str | os.PathLike[str], k: int, preset: str, part: str, fixed: Mapping[str, Any], best: Point, by: str
) -> str:
    words = ["cgmcr2", "fit", str(features), "-k", str(k), "--preset", preset, "-o", "run"]
    words += [] if part == "train" else ["--part", part]
    for name, value in {**fixed, **best}.items():
        words += ["--set", f"{name}={f'{value:g}' if isinstance(value, float) else value}"]
    return shlex.join(words) + ("  # chosen with labels" if by == "labels" else "")


def _claim(folder: Path, request: dict[str, Any]) -> None:
    """Make the folder this search's, or refuse if it is another's."""
    path = folder / "tune.json"
    if path.exists():
        there = json.loads(path.read_text(encoding="utf-8"))
        if there != request:
            what = next((name for name in request if there.get(name) != request[name]), "version")
            raise ValueError(f"{folder} holds a search with another {what.replace('_', ' ')}; take another folder.")
    elif folder.exists() and any(folder.iterdir()):
        raise ValueError(f"{folder} is not empty and holds no search; choose a new folder.")
    else:
        write_json(path, request)
