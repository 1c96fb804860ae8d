from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cgmcr2.experiments.tuning.study import JOURNAL, STARTUP_TRIALS, TrialStudy, import_optuna, open_journal

SPACE = {"eps": (0.1, 1.0), "gamma": (2.0, 64.0), "s": (3, 50)}


def evaluate(point: dict[str, Any], seed: int) -> dict[str, float]:
    """Best at gamma 8; seeds differ by 0.01."""
    score = 1 - abs(float(np.log(point["gamma"] / 8))) + 0.01 * seed
    return {"score": score, "live": 4.0, "balance": 1.0, "stability": score}


def open_study(folder: Path, evaluate: Any = evaluate, seeds: range = range(1)) -> TrialStudy:
    return TrialStudy(open_journal(folder, {"seed": 0}), "search", evaluate, n_clusters=4, seeds=seeds)


def test_proposals_are_in_the_space_and_approach_the_best(tmp_path: Path) -> None:
    study = open_study(tmp_path)
    trials = [study.run_trial(SPACE) for _ in range(25)]
    for trial in trials:
        assert all(low <= trial.settings[name] <= high for name, (low, high) in SPACE.items())
        assert isinstance(trial.settings["s"], int)
    distances = [abs(np.log(trial.settings["gamma"] / 8)) for trial in trials]
    assert np.mean(distances[-10:]) < 0.6 * np.mean(distances[:STARTUP_TRIALS])
    assert study.best == max(trials, key=lambda trial: trial.score or 0)


def test_a_resumed_study_proposes_the_same_settings(tmp_path: Path) -> None:
    whole = open_study(tmp_path / "whole")
    expected = [whole.run_trial(SPACE).settings for _ in range(12)]

    def interrupted(point: dict[str, Any], seed: int) -> dict[str, float]:
        raise KeyboardInterrupt

    for _ in range(10):
        open_study(tmp_path / "parts").run_trial(SPACE)
    with pytest.raises(KeyboardInterrupt):
        open_study(tmp_path / "parts", interrupted).run_trial(SPACE)
    with (tmp_path / "parts" / JOURNAL).open("a") as file:
        file.write('{"op_code": 4')  # as a power failure may leave it
    resumed = open_study(tmp_path / "parts")
    assert len(resumed.trials) == 10
    resumed.run_trial(SPACE)
    resumed.run_trial(SPACE)
    assert [trial.settings for trial in resumed.trials] == expected


def test_fixed_settings_and_the_mean_over_seeds(tmp_path: Path) -> None:
    trial = open_study(tmp_path, seeds=range(3)).run_trial(SPACE, fixed={"eps": 0.5, "gamma": 8.0, "s": 7})
    assert trial.settings == {"eps": 0.5, "gamma": 8.0, "s": 7}
    assert trial.score == pytest.approx(1.01)


def test_a_failed_trial_keeps_its_error(tmp_path: Path) -> None:
    def fail(point: dict[str, Any], seed: int) -> dict[str, float]:
        raise FloatingPointError("the term R was not finite")

    study = open_study(tmp_path, fail)
    assert study.run_trial(SPACE).error == "the term R was not finite"
    assert (study.trials[0].score, study.best) == (None, None)


def test_a_journal_belongs_to_one_request(tmp_path: Path) -> None:
    open_journal(tmp_path / "a", {"n_clusters": 4})
    with pytest.raises(ValueError, match="holds a search with another n clusters; choose another folder"):
        open_journal(tmp_path / "a", {"n_clusters": 5})
    with pytest.raises(ValueError, match="is not empty and holds no search"):
        open_journal(tmp_path, {"n_clusters": 4})


def test_without_optuna_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(ImportError, match="needs Optuna; install it with: pip install 'cgmcr2\\[tune\\]'"):
        import_optuna()
