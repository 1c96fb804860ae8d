"""The next settings to try: spread evenly at first, then, with Optuna, where they promise most."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

STARTUP = 8  # trials that fill the space evenly, before they follow what was found

Point = dict[str, Any]


def suggest(
    space: Mapping[str, tuple[float, float]], done: Sequence[Mapping[str, Any]], number: int, seed: int
) -> Point:
    """The settings of trial ``number``: a function of the trials before it, so that a resumed search goes on alike.

    >>> suggest({"eps": (0.1, 1.0), "gamma": (4, 128), "s": (3, 50)}, [], 1, 0).keys()
    dict_keys(['eps', 'gamma', 's'])
    """
    known = [run for run in done if run["score"] is not None]
    tpe = _optuna() if number >= STARTUP and len(known) >= 2 else None
    if tpe is None:
        from scipy.stats import qmc

        places = qmc.Halton(len(space), rng=np.random.default_rng(seed)).random(number + 1)[number]
        return {
            name: _settle(name, low * (high / low) ** place)
            for place, (name, (low, high)) in zip(places, space.items(), strict=True)
        }
    every = {name: tpe.distributions.FloatDistribution(low, high, log=True) for name, (low, high) in space.items()}
    study = tpe.create_study(
        direction="maximize", sampler=tpe.samplers.TPESampler(seed=1000 * seed + number, multivariate=True)
    )
    for run in known:
        params = {name: float(min(max(run[name], low), high)) for name, (low, high) in space.items()}
        study.add_trial(tpe.trial.create_trial(params=params, distributions=every, value=run["score"]))
    return {name: _settle(name, value) for name, value in study.ask(every).params.items()}


def _optuna() -> Any:
    """Optuna, quiet; None where it is not installed."""
    try:
        import optuna
    except ImportError:
        return None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    warnings.filterwarnings("ignore", category=optuna.exceptions.ExperimentalWarning)
    return optuna


def _settle(name: str, value: float) -> float:
    return round(value) if name in ("s", "neighbours") else three_digits(value)


def three_digits(value: float) -> float:
    """Three digits, so that the command says just what was run."""
    return float(f"{value:.3g}")
