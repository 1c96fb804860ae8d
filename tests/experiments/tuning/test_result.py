from __future__ import annotations

import dataclasses
from pathlib import Path

from cgmcr2.experiments.tuning import Trial, TuningResult
from cgmcr2.experiments.tuning.plot import draw_tuning
from cgmcr2.experiments.tuning.result import LABELS_USED

GAMMA_TRIALS = [Trial("gamma", {"eps": 0.5, "gamma": 1.0, "s": 3}, 4, score=0.2, live=2, seconds=1.0)]
PRESET = Trial("search", {"eps": 0.5, "gamma": 2.0, "s": 3}, 4, score=0.5, live=4, seconds=1.0)
FAILED = Trial("search", {"eps": 0.2, "gamma": 4.0, "s": 5}, 4, error="not finite", seconds=1.0)
BEST = Trial("search", {"eps": 0.3, "gamma": 3.0, "s": 4}, 4, score=0.7, live=4, seconds=1.0)
RESULT = TuningResult(
    gamma_trials=GAMMA_TRIALS,
    trials=[PRESET, FAILED, BEST],
    best=BEST,
    gamma=1.0,
    feasible=False,
    min_live=0.75,
    folder=Path(),
    by="stability",
    request={},
    command="cgmcr2 fit",
)


def test_the_summary_names_gamma_the_best_and_the_preset() -> None:
    assert RESULT.summary() == [
        "No gamma up to 1 keeps at least 75% of the clusters live; gamma 1 keeps the most.",
        "Best of 3 trials: eps 0.3, gamma 3, s 4; stability (label-free): 70.0 %.",
        "Preset without changes: 50.0 %.",
        "To fit with these settings: cgmcr2 fit",
    ]
    assert LABELS_USED in dataclasses.replace(RESULT, by="labels").summary()


def test_the_table_ranks_the_trials_and_failed_ones_come_last() -> None:
    rows = [line.strip("|").split("|") for line in RESULT.markdown().splitlines() if line.startswith("|")]
    scores = [row[4].strip() for row in rows[2:]]
    assert scores == ["20.0 %", "70.0 %", "50.0 %", "failed"]
    assert RESULT.csv().splitlines()[3] == "search,0.2,4.0,5,,stability,,,,1.0,not finite"


def test_the_plot_says_that_labels_were_used() -> None:
    figure = draw_tuning(GAMMA_TRIALS, RESULT.trials, 1.0, "ACC (BY LABELS)")
    assert figure.axes[1].get_ylabel() == "ACC (BY LABELS), %"
    assert len(figure.axes) == 4
