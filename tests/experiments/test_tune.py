"""A search finds a gamma at which clusters do not collapse, goes on where it was, and says where labels were used."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cgmcr2.cli import run
from cgmcr2.experiments import tune as module
from cgmcr2.experiments.suggest import STARTUP, suggest
from cgmcr2.experiments.tune import tune
from cgmcr2.experiments.tuning import MARK

SMALL = {"hidden_dim": 32, "embedding_dim": 8, "batch_size": 100, "lr": 5e-3, "warmup_epochs": 15}
SMALL |= {"finetune_epochs": 15, "membership": "softmax"}
SPACE = {"eps": (0.1, 1.0), "gamma": (2.0, 64.0), "s": (3, 50)}


@pytest.fixture(scope="module")
def features(tmp_path_factory: pytest.TempPathFactory) -> Path:
    random = np.random.default_rng(0)
    y = np.arange(200) % 4
    X = 3 * np.eye(4, 8)[y] + 0.6 * random.standard_normal((200, 8))
    path = tmp_path_factory.mktemp("tune") / "x.npz"
    np.savez(path, features=X.astype(np.float32), labels=y)
    return path


@pytest.fixture(scope="module")
def done(features: Path) -> Path:
    """A search by labels, as a user types it."""
    folder = features.parent / "by-labels"
    words = ["tune", features, "-k", 4, "-o", folder, "--by", "labels", "--preset", "paper", "--trials", 2, "-q"]
    assert run(*words, *(word for item in SMALL.items() for word in ("--set", "{}={}".format(*item)))) == 0
    return folder


def test_a_feasible_gamma_is_found_where_a_smaller_one_collapses(done: Path) -> None:
    lines = [json.loads(line) for line in (done / "runs.jsonl").read_text().splitlines()]
    ladder = lines[:-1]
    best = json.loads((done / "best.json").read_text())
    assert ladder[0]["gamma"] == pytest.approx(2 * 4 / 3 / 16, abs=1e-3)  # a sixteenth of what is always safe
    assert len(ladder) > 1
    assert all(line["live"] < 3 for line in ladder[:-1])
    assert ladder[-1]["live"] >= 3
    assert best["feasible_gamma"] == ladder[-1]["gamma"] < 2 * 4 / 3
    assert ladder[0]["acc"] < 0.75 < best["score"]
    assert lines[-1]["gamma"] == 70  # the preset as it is comes first, then what was feasible, known already


def test_labels_are_marked_in_every_output(done: Path, features: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["tune", features, "-k", 4, "-o", done, "--by", "labels", "--preset", "paper", "--trials", 2, "-q"]
    before = (done / "runs.jsonl").read_bytes()
    assert run(*words, *(word for item in SMALL.items() for word in ("--set", "{}={}".format(*item)))) == 0
    assert (done / "runs.jsonl").read_bytes() == before  # nothing was done again
    out, err = capsys.readouterr()
    assert MARK in out
    assert MARK in err
    assert "ACC (BY LABELS)" in out
    command = next(line for line in out.splitlines() if line.startswith("Run it: "))
    assert command.endswith("# chosen with labels")
    assert MARK in (done / "table.md").read_text()
    assert all(",labels," in line for line in (done / "table.csv").read_text().splitlines()[1:])
    best = json.loads((done / "best.json").read_text())
    assert (best["scored_by"], best["note"]) == ("labels", MARK)
    assert json.loads((done / "tune.json").read_text())["scored_by"] == "labels"
    assert all(json.loads(line)["scored_by"] == "labels" for line in (done / "runs.jsonl").read_text().splitlines())
    assert (done / "plot.png").stat().st_size > 10_000
    assert (done / "plot.pdf").read_bytes()[:5] == b"%PDF-"


def test_the_plot_says_by_labels() -> None:
    from cgmcr2.experiments import plots as figures

    ladder = [{"gamma": 1.0, "live": 2, "clusters": 4}]
    trials = [{"eps": 0.5, "gamma": 2.0, "s": 3, "score": 0.5}, {"eps": 0.2, "gamma": 4.0, "s": 5, "score": None}]
    figure = figures.tuning(ladder, trials, ("eps", "gamma", "s"), 1.0, "ACC (BY LABELS)")
    assert figure.axes[1].get_ylabel() == "ACC (BY LABELS), %"


def test_without_labels_none_are_read_and_a_search_goes_on(
    features: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with np.load(features) as archive:
        np.savez(tmp_path / "x.npz", features=archive["features"])  # no labels
    fitted: list[tuple[float, int]] = []

    def fit(X: Any, y: Any, k: int, plan: Any, point: dict[str, Any], seed: int) -> dict[str, Any]:
        assert y is None
        if len(fitted) == stop_at:
            raise KeyboardInterrupt
        fitted.append((point["gamma"], seed))
        score = 1 - abs(np.log(point["gamma"] / 9)) / 9 - abs(point["eps"] - 0.4)
        return {
            "live": 4 if point["gamma"] > 0.5 else 2,
            "clusters": k,
            "balance": 1,
            "agreement": score,
            "score": score,
        }

    monkeypatch.setattr(module, "_fit", fit)
    keywords: dict[str, Any] = {"preset": "paper", "trials": 12, "seeds": 2}
    stop_at = 13
    with pytest.raises(KeyboardInterrupt):
        tune(tmp_path / "x.npz", 4, tmp_path / "cut", **keywords)
    with (tmp_path / "cut" / "runs.jsonl").open("a") as file:
        file.write('{"eps": 0.')  # as a crash leaves it
    stop_at = -1
    cut = tune(tmp_path / "x.npz", 4, tmp_path / "cut", **keywords)
    assert len(fitted) == len(cut.ladder) + 2 * 12 - 1  # one of the ladder's is a trial too
    fitted.clear()
    whole = tune(tmp_path / "x.npz", 4, tmp_path / "whole", **keywords)
    assert [run["score"] for run in whole.trials] == [run["score"] for run in cut.trials]
    assert cut.best["score"] == max(run["score"] for run in cut.trials)
    assert cut.gamma == pytest.approx(0.667)
    assert all(run["gamma"] >= 0.667 for run in cut.trials)
    assert MARK not in cut.markdown()
    fitted.clear()
    more = tune(tmp_path / "x.npz", 4, tmp_path / "whole", **{**keywords, "trials": 13})
    assert len(fitted) == 2
    assert [run["score"] for run in more.trials[:12]] == [run["score"] for run in whole.trials]


def test_the_command_is_one_that_runs(features: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = {"live": 4, "clusters": 4, "balance": 1, "agreement": 0.5, "score": 0.5}
    monkeypatch.setattr(module, "_fit", lambda *_: found)
    tuning = tune(features, 4, tmp_path / "out", trials=2, settings={"warmup_epochs": 1, "finetune_epochs": 1})
    assert tuning.names == ("eps", "gamma", "neighbours")  # of the whole graph, which auto has
    monkeypatch.chdir(tmp_path)
    words = shlex.split(tuning.command)
    assert run(*words[1:], "-q") == 0
    settings = json.loads((tmp_path / "run" / "run.json").read_text())["settings"]
    assert {name: settings[name] for name in tuning.names} == {name: tuning.best[name] for name in tuning.names}


def test_a_trial_that_fails_is_a_row(features: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fit(X: Any, y: Any, k: int, plan: Any, point: dict[str, Any], seed: int) -> dict[str, Any]:
        if point["gamma"] > 10:
            raise FloatingPointError("the term R was not finite")
        return {"live": 1, "clusters": k, "balance": 1, "agreement": 0.5, "score": 0.5}

    monkeypatch.setattr(module, "_fit", fit)
    tuning = tune(features, 4, tmp_path / "out", preset="paper", trials=4)
    assert not tuning.feasible
    assert "No gamma up to" in tuning.lines()[0]
    assert tuning.trials[0]["error"] == "the term R was not finite"
    assert tuning.best["score"] == 0.5
    assert "| failed |" in tuning.markdown()


def test_suggestions_are_in_the_space_and_follow_what_was_found() -> None:
    random = np.random.default_rng(0)
    done = []
    for number in range(40):
        point = suggest(SPACE, done, number, 0)
        assert suggest(SPACE, done, number, 0) == point
        assert all(low <= point[name] <= high for name, (low, high) in SPACE.items())
        assert isinstance(point["s"], int)
        done.append({**point, "score": -abs(np.log(point["gamma"] / 8)) + 0.01 * random.random()})
    near = [abs(np.log(run["gamma"] / 8)) for run in done]
    assert np.mean(near[-15:]) < 0.6 * np.mean(near[:STARTUP])


def test_without_optuna_the_space_is_filled_evenly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    done: list[dict[str, Any]] = []
    for number in range(30):
        done.append({**suggest(SPACE, done, number, 0), "score": 0.5})
    assert len({run["gamma"] for run in done}) == 30
    assert min(run["eps"] for run in done) < 0.13
    assert max(run["eps"] for run in done) > 0.8


def test_what_is_wrong_is_one_sentence(done: Path, features: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="There is no score 'acc'; there are agreement, labels"):
        tune(features, 4, tmp_path / "a", by="acc")
    with pytest.raises(ValueError, match="has no array 'kinds' to score by"):
        tune(features, 4, tmp_path / "a", by="labels", labels="kinds")
    with pytest.raises(ValueError, match="gamma is searched for and cannot be set too"):
        tune(features, 4, tmp_path / "a", settings={"gamma": 3})
    with pytest.raises(ValueError, match="The number of trials is 0"):
        tune(features, 4, tmp_path / "a", trials=0)
    assert not (tmp_path / "a").exists()
    with pytest.raises(ValueError, match="holds a search with another n clusters"):
        tune(features, 5, done, by="labels", preset="paper", settings=SMALL)
    with pytest.raises(ValueError, match="is not empty and holds no search"):
        tune(features, 4, features.parent)
