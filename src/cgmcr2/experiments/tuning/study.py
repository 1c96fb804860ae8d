"""Trials of a search as an Optuna study: samplers propose settings, a journal file stores the trials."""

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cgmcr2._random import mix

from .result import Trial, percent

if TYPE_CHECKING:
    from optuna.storages import JournalStorage
    from optuna.trial import FrozenTrial

JOURNAL = "trials.journal"
STARTUP_TRIALS = 8  # trials before the tree-structured Parzen estimator (TPE) is used; sampling is random until then

Point = dict[str, Any]  # values of the searched settings by name
Evaluate = Callable[[Point, int], dict[str, float]]  # (settings, seed) -> score, live, balance, stability
Space = Mapping[str, tuple[float, float]]  # bounds by name; two int bounds define an integer setting

logger = logging.getLogger(__name__)


def open_journal(folder: Path, request: Mapping[str, Any]) -> JournalStorage:
    """Open the journal in ``folder``, or create it; raise a ``ValueError`` if it belongs to another request."""
    optuna = import_optuna()
    from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock, JournalStorage

    path = folder / JOURNAL
    if not path.exists() and folder.exists() and any(folder.iterdir()):
        raise ValueError(f"{folder} is not empty and holds no search; choose a new folder.")
    folder.mkdir(parents=True, exist_ok=True)
    _drop_incomplete_line(path)
    lock = JournalFileOpenLock(str(path))  # the default lock is a symbolic link, which Windows restricts
    storage = JournalStorage(JournalFileBackend(str(path), lock))
    study = optuna.create_study(storage=storage, study_name="search", direction="maximize", load_if_exists=True)
    stored = study.user_attrs.get("request")
    if stored is None:
        study.set_user_attr("request", dict(request))
    elif stored != request:
        changed = next((name for name in request if stored.get(name) != request[name]), "version")
        raise ValueError(f"{folder} holds a search with another {changed.replace('_', ' ')}; choose another folder.")
    return storage


class TrialStudy:
    """One stage of the search as an Optuna study that maximises ``objective``."""

    def __init__(
        self,
        storage: JournalStorage,
        stage: str,
        evaluate: Evaluate,
        *,
        n_clusters: int,
        seeds: range,
        objective: str = "score",
    ) -> None:
        self._optuna = import_optuna()
        self._study = self._optuna.create_study(
            storage=storage, study_name=stage, direction="maximize", load_if_exists=True
        )
        self.stage, self.evaluate, self.n_clusters = stage, evaluate, n_clusters
        self.seeds, self.objective = seeds, objective

    @property
    def trials(self) -> list[Trial]:
        """Finished and failed trials in order, without interrupted ones."""
        return [self._to_trial(trial) for trial in self._recorded()]

    @property
    def best(self) -> Trial | None:
        """Trial with the largest objective; None if all failed."""
        try:
            return self._to_trial(self._study.best_trial)
        except ValueError:
            return None

    def run_trial(self, space: Space, *, fixed: Mapping[str, float] | None = None, seed: int = 0) -> Trial:
        """Run one trial, with the settings ``fixed`` (``PartialFixedSampler``) or those that ``TPESampler`` proposes.

        A proposal depends on ``seed`` and the previous trials only, so a resumed search proposes the same settings.
        """
        number = len(self._recorded())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", self._optuna.exceptions.ExperimentalWarning)
            sampler = self._optuna.samplers.TPESampler(
                seed=mix(seed, number) % 2**32,
                n_startup_trials=STARTUP_TRIALS,
                multivariate=True,
                constant_liar=False,  # ignore interrupted trials, which the journal lists as running
            )
            if fixed is not None:
                sampler = self._optuna.samplers.PartialFixedSampler(dict(fixed), sampler)
            self._study.sampler = sampler
            trial = self._study.ask({name: self._distribution(*bounds) for name, bounds in space.items()})
        point = {name: three_digits(value) for name, value in trial.params.items()}
        trial.set_user_attr("settings", point)
        start = time.perf_counter()
        try:
            evaluations = [self.evaluate(point, run_seed) for run_seed in self.seeds]
        except (ValueError, FloatingPointError) as error:
            trial.set_user_attr("error", " ".join(str(error).split()))
            trial.set_user_attr("seconds", time.perf_counter() - start)
            self._study.tell(trial, state=self._optuna.trial.TrialState.FAIL)
        else:
            for name in evaluations[0]:
                trial.set_user_attr(name, float(np.mean([evaluation[name] for evaluation in evaluations])))
            trial.set_user_attr("seconds", time.perf_counter() - start)
            self._study.tell(trial, trial.user_attrs[self.objective])
        result = self.trials[-1]
        outcome = result.error or f"score {percent(result.score)}, live clusters {result.format_live()}"
        logger.info("%s: %s: %s", self.stage, result.describe(), outcome)
        return result

    def _recorded(self) -> list[FrozenTrial]:
        complete = self._optuna.trial.TrialState.COMPLETE
        return [trial for trial in self._study.trials if trial.state == complete or "error" in trial.user_attrs]

    def _distribution(self, low: float, high: float) -> Any:
        if isinstance(low, int) and isinstance(high, int):
            return self._optuna.distributions.IntDistribution(low, high, log=True)
        return self._optuna.distributions.FloatDistribution(low, high, log=True)

    def _to_trial(self, trial: FrozenTrial) -> Trial:
        values = trial.user_attrs
        measures = {name: values.get(name) for name in ("score", "live", "balance", "stability", "seconds")}
        return Trial(self.stage, values["settings"], self.n_clusters, error=values.get("error", ""), **measures)


def import_optuna() -> Any:
    """Import Optuna, silence its log messages, and explain how to install it if it is missing."""
    try:
        import optuna
    except ImportError as error:
        raise ImportError("The search needs Optuna; install it with: pip install 'cgmcr2[tune]'") from error
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna


def three_digits(value: float) -> float:
    """Round to three significant digits, so that the printed command reproduces the trial exactly.

    >>> three_digits(0.123456), three_digits(12)
    (0.123, 12)
    """
    return value if isinstance(value, int) else float(f"{value:.3g}")


def _drop_incomplete_line(path: Path) -> None:
    """Remove an incomplete last line, which a full disk or a power failure may leave and Optuna cannot read."""
    if path.exists() and not (content := path.read_bytes()).endswith(b"\n"):
        path.write_bytes(content[: content.rfind(b"\n") + 1])
