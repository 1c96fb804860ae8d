"""Plot of a hyperparameter search."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from cgmcr2.experiments.plotting import BLUE, VERMILLION, new_figure

from .result import Trial

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def draw_tuning(gamma_trials: Sequence[Trial], trials: Sequence[Trial], gamma: float, score: str) -> Figure:
    """Plot live clusters against gamma (first panel), and the score of each trial against each setting."""
    finished = [(trial.settings, trial.score) for trial in trials if trial.score is not None]
    best_settings, best_score = max(finished, key=lambda item: item[1])
    figure = new_figure(3 * (1 + len(best_settings)), 3.2)
    first, *others = figure.subplots(1, 1 + len(best_settings))
    steps = [(trial.settings["gamma"], trial.live, trial.clusters) for trial in gamma_trials if trial.live is not None]
    first.plot([step[0] for step in steps], [step[1] for step in steps], "o-", color=BLUE)
    first.axvline(gamma, color=VERMILLION, linestyle="--", label=f"$\\gamma$ = {gamma:g}")
    first.set_ylim(0, max((clusters for _, _, clusters in steps), default=1) * 1.05)
    first.set_xlabel("gamma")
    first.set_ylabel("live clusters")
    first.set_title("smallest feasible $\\gamma$")
    for axes, name in zip(others, best_settings, strict=True):
        x, y = [settings[name] for settings, _ in finished], [100 * value for _, value in finished]
        axes.scatter(x, y, color=BLUE, marker="o", s=22, alpha=0.8)
        best = [best_settings[name]], [100 * best_score]
        axes.scatter(*best, color=VERMILLION, marker="*", s=110, label="best", zorder=3)
        axes.set_xlabel(name)
    for axes in (first, *others):
        _use_log_scale(axes)
        axes.grid(alpha=0.3)
        axes.legend(fontsize="x-small")
    others[0].set_ylabel(f"{score}, %")
    return figure


def _use_log_scale(axes: Axes) -> None:
    """Make the x axis logarithmic, with tick labels such as 0.5 instead of powers of ten."""
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

    axes.set_xscale("log")
    low, high = axes.get_xlim()
    subs = (1, 2, 3, 5, 7) if high < 12 * low else (1, 2, 5) if high < 300 * low else (1,)
    axes.xaxis.set_major_locator(MaxNLocator(4) if high < 4 * low else LogLocator(subs=subs))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())
