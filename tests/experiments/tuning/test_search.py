from __future__ import annotations

import contextlib
import io
import json
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cgmcr2.cli import run
from cgmcr2.experiments.tuning import tune
from cgmcr2.experiments.tuning.result import LABELS_USED, SearchOutcome
from cgmcr2.experiments.tuning.search import search_settings
from cgmcr2.experiments.tuning.study import open_journal
from cgmcr2.training import resolve

SMALL = {"hidden_dim": 32, "embedding_dim": 8, "batch_size": 100, "lr": 5e-3, "warmup_epochs": 15}
SMALL |= {"finetune_epochs": 15, "membership": "softmax"}


@pytest.fixture(scope="module")
def features(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four groups of 50 rows."""
    y = np.arange(200) % 4
    X = 3 * np.eye(4, 8)[y] + 0.6 * np.random.default_rng(0).standard_normal((200, 8))
    path = tmp_path_factory.mktemp("tune") / "x.npz"
    np.savez(path, features=X.astype(np.float32), labels=y)
    return path


@pytest.fixture(scope="module")
def command(features: Path) -> list[Any]:
    """A search by labels as a user types it."""
    words = ["tune", features, "-k", 4, "-o", features.parent / "by-labels", "--by", "labels", "--preset", "paper"]
    settings = [word for item in SMALL.items() for word in ("--set", "{}={}".format(*item))]
    return [*words, "--trials", 2, "-q", *settings]


@pytest.fixture(scope="module")
def printed(command: list[Any]) -> tuple[str, str]:
    """What the command prints to standard output and to standard error."""
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as err:
        assert run(*command) == 0
    return out.getvalue(), err.getvalue()


@pytest.fixture(scope="module")
def folder(features: Path, printed: tuple[str, str]) -> Path:
    """The output folder of the command."""
    return features.parent / "by-labels"


def test_gamma_is_doubled_until_clusters_do_not_collapse(features: Path, folder: Path) -> None:
    result = tune(features, 4, folder, by="labels", preset="paper", settings=SMALL, trials=2)
    assert result.gamma_trials[0].settings["gamma"] == pytest.approx(2 * 4 / 3 / 16, abs=1e-3)
    assert len(result.gamma_trials) > 1
    assert all(trial.live is not None and trial.live < 3 for trial in result.gamma_trials[:-1])
    assert result.gamma_trials[-1].live is not None
    assert result.gamma_trials[-1].live >= 3
    assert result.feasible
    assert result.gamma == result.gamma_trials[-1].settings["gamma"] < 2 * 4 / 3
    assert [trial.settings["gamma"] for trial in result.trials] == [70, result.gamma]  # the preset comes first
    assert result.gamma_trials[0].score is not None
    assert result.best.score is not None
    assert result.gamma_trials[0].score < 0.75 < result.best.score


def test_every_output_says_that_labels_were_used(folder: Path, printed: tuple[str, str]) -> None:
    out, err = printed
    assert LABELS_USED in out
    assert LABELS_USED in err
    assert "ACC (BY LABELS)" in out
    line = next(line for line in out.splitlines() if line.startswith("To fit with these settings: "))
    assert line.endswith("# chosen with labels")
    assert LABELS_USED in (folder / "table.md").read_text()
    assert all(",labels," in line for line in (folder / "table.csv").read_text().splitlines()[1:])
    best = json.loads((folder / "best.json").read_text())
    assert (best["scored_by"], best["note"], best["request"]["scored_by"]) == ("labels", LABELS_USED, "labels")
    assert (folder / "plot.png").stat().st_size > 10_000
    assert (folder / "plot.pdf").read_bytes()[:5] == b"%PDF-"


def test_a_finished_search_is_not_repeated(
    folder: Path, command: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    best = json.loads((folder / "best.json").read_text())
    trials = (folder / "table.csv").read_text()  # with the seconds of each trial
    assert run(*command, "--json") == 0
    assert json.loads(capsys.readouterr().out) == best
    assert (folder / "table.csv").read_text() == trials


def fake_search(folder: Path, evaluate: Any, **changes: Any) -> SearchOutcome:
    arguments: dict[str, Any] = {"trials": 12, "seeds": range(2), **changes}
    base = resolve("paper", 200, 4, 8)
    return search_settings(evaluate, base, 200, 4, open_journal(folder, {}), **arguments)


def test_an_interrupted_search_resumes_and_can_be_extended(tmp_path: Path) -> None:
    calls: list[float] = []

    def evaluate(point: dict[str, Any], seed: int) -> dict[str, float]:
        if len(calls) == stop_at:
            raise KeyboardInterrupt
        calls.append(point["gamma"])
        score = 1 - abs(float(np.log(point["gamma"] / 9))) / 9 - abs(point["eps"] - 0.4)
        return {"live": 4.0 if point["gamma"] > 0.5 else 2.0, "balance": 1.0, "stability": score, "score": score}

    stop_at = 13
    with pytest.raises(KeyboardInterrupt):
        fake_search(tmp_path / "parts", evaluate)
    stop_at = -1
    resumed = fake_search(tmp_path / "parts", evaluate)
    calls.clear()
    whole = fake_search(tmp_path / "whole", evaluate)
    assert len(calls) == len(whole.gamma_trials) + 2 * 12
    assert [trial.settings for trial in whole.trials] == [trial.settings for trial in resumed.trials]
    assert resumed.best.score == max(trial.score or 0 for trial in resumed.trials)
    assert resumed.gamma == pytest.approx(0.667)
    assert all(trial.settings["gamma"] >= 0.667 for trial in resumed.trials)
    calls.clear()
    longer = fake_search(tmp_path / "whole", evaluate, trials=13)
    assert len(calls) == 2
    assert [trial.settings for trial in longer.trials[:12]] == [trial.settings for trial in whole.trials]


def test_failed_trials_do_not_end_the_search(tmp_path: Path) -> None:
    def evaluate(point: dict[str, Any], seed: int) -> dict[str, float]:
        if point["gamma"] > 10:
            raise FloatingPointError("the term R was not finite")
        return {"live": 1.0, "balance": 1.0, "stability": 0.5, "score": 0.5}

    outcome = fake_search(tmp_path / "out", evaluate, trials=4)
    assert not outcome.feasible
    assert len(outcome.gamma_trials) == 12
    assert outcome.trials[0].error == "the term R was not finite"
    assert outcome.best.score == 0.5


def test_a_search_in_which_everything_fails_says_why(tmp_path: Path) -> None:
    def evaluate(point: dict[str, Any], seed: int) -> dict[str, float]:
        raise ValueError("no rows")

    with pytest.raises(ValueError, match="Training failed at every gamma: no rows"):
        fake_search(tmp_path / "out", evaluate)


def test_without_labels_the_command_repeats_the_best_trial(
    features: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with np.load(features) as archive:
        np.savez(tmp_path / "x.npz", features=archive["features"])
    short = {"warmup_epochs": 1, "finetune_epochs": 1}
    result = tune(tmp_path / "x.npz", 4, tmp_path / "out", trials=1, settings=short)
    assert list(result.best.settings) == ["eps", "gamma", "neighbours"]  # auto has a graph of the whole data
    assert LABELS_USED not in result.markdown()
    monkeypatch.chdir(tmp_path)
    assert run(*shlex.split(result.command)[1:], "-q") == 0
    used = json.loads((tmp_path / "run" / "run.json").read_text())["settings"]
    assert {name: used[name] for name in result.best.settings} == result.best.settings


def test_mistakes_are_rejected_before_the_first_training(features: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="There is no score 'acc'; choose from stability, labels"):
        tune(features, 4, tmp_path / "a", by="acc")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="has no label array 'kinds'"):
        tune(features, 4, tmp_path / "a", by="labels", labels="kinds")
    with pytest.raises(ValueError, match="gamma is part of the search and cannot be fixed"):
        tune(features, 4, tmp_path / "a", settings={"gamma": 3})
    with pytest.raises(ValueError, match="The number of trials is 0"):
        tune(features, 4, tmp_path / "a", trials=0)
    with pytest.raises(ValueError, match="The number of clusters is 201; give 2 to 200"):
        tune(features, 201, tmp_path / "a")
    assert not (tmp_path / "a").exists()
