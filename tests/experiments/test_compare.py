"""A comparison runs what is missing, survives what fails, and says how each number came about."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from cgmcr2.experiments import compare
from cgmcr2.experiments.compare import _resolve
from cgmcr2.experiments.job import Job, complete_settings
from cgmcr2.experiments.table import agreement, draw, to_csv, to_markdown


def write(path: Path, **more: np.ndarray) -> Path:
    random = np.random.default_rng(0)
    y = np.arange(60) % 3
    X = np.eye(6)[y] + 0.1 * random.standard_normal((60, 6))
    np.savez(path, features=X.astype(np.float32), **more)
    return path


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two methods, one of which cannot predict, and TAC without text, on a file with labels and a split."""
    place = tmp_path_factory.mktemp("compare")
    path = write(place / "x.npz", labels=np.arange(60) % 3, split=(np.arange(60) % 5 == 0).astype(int))
    comparison = compare(path, 3, place / "out", methods=["k-means", "ensc", "tac"], seeds=1)
    assert comparison.save() is None
    return place


def test_the_runs_are_kept_with_their_protocol(done: Path) -> None:
    runs = [json.loads(line) for line in (done / "out" / "runs.jsonl").read_text().splitlines()]
    assert [run["method"] for run in runs] == ["k-means", "ensc"]
    assert runs[0]["protocol"] == "fitted on split 0 (48 rows), predicted split 1 (12 rows)"
    assert runs[1]["protocol"] == "fitted on split 1 (12 rows) and labelled it; it cannot predict"
    assert runs[0]["acc"] == 1.0
    assert runs[0]["clusters"] == 3
    assert runs[0]["memory_mb"] > 50
    assert np.load(done / "out" / "labels" / "k-means-0.npy").shape == (12,)


def test_table_and_plot_are_saved(done: Path) -> None:
    names = {path.name for path in (done / "out").iterdir()}
    assert {"compare.json", "runs.jsonl", "labels", "table.md", "table.csv", "plot.png", "plot.svg"} == names
    table = (done / "out" / "table.md").read_text()
    assert "| k-means | 1 | 100.0 | 100.0 | 100.0 |" in table
    assert "| tac | 0 |" in table
    assert "left out: needs text embeddings" in table
    with (done / "out" / "table.csv").open(newline="") as file:
        rows = {row["method"]: row for row in csv.DictReader(file)}
    assert float(rows["k-means"]["acc_mean"]) == 1
    assert rows["tac"]["acc_mean"] == ""


def test_only_what_is_missing_is_run(done: Path) -> None:
    log = done / "out" / "runs.jsonl"
    before = log.read_text()
    told: list[str] = []
    again = compare(done / "x.npz", 3, done / "out", methods=["k-means", "ensc"], seeds=1, tell=told.append)
    assert log.read_text() == before
    assert told == []
    assert len(again.runs) == 2
    with pytest.raises(ValueError, match="holds a comparison of other features, clusters or labels"):
        compare(done / "x.npz", 4, done / "out", methods=["k-means"])


def test_a_default_that_has_changed_runs_again(done: Path) -> None:
    log = done / "out" / "runs.jsonl"
    before = log.read_text()
    first, *others = before.splitlines()
    run = json.loads(first)
    assert run["settings"]["n_init"] == 10  # it was not given
    run["settings"]["n_init"] = 11
    log.write_text("\n".join([json.dumps(run), *others]) + "\n")
    told: list[str] = []
    compare(done / "x.npz", 3, done / "out", methods=["k-means", "ensc"], seeds=1, tell=told.append)
    assert [line.partition(",")[0] for line in told] == ["k-means"]


def test_the_presets_settings_are_complete(tmp_path: Path) -> None:
    job = Job(str(write(tmp_path / "x.npz")), "auto", 0, 3, {"gamma": 7}, "labels", str(tmp_path))
    settings = complete_settings(job, 60, 6)
    assert (settings["gamma"], settings["batch_size"], settings["preset"]) == (7, 60, "auto")


def test_failures_are_rows_and_are_tried_again(tmp_path: Path) -> None:
    path = write(tmp_path / "x.npz")
    told: list[str] = []
    first = compare(
        path,
        3,
        tmp_path / "out",
        methods=["spectral", "spherical-k-means"],
        seeds=1,
        settings={"spectral": {"no_such": 1}},
        tell=told.append,
    )
    assert "spectral has no setting named 'no_such'" in first.runs[0]["error"]
    assert "error" not in first.runs[1]
    assert "| spectral | 0 |" in first.markdown()
    assert "silhouette %" in first.markdown()  # the file has no labels
    again = compare(path, 3, tmp_path / "out", methods=["spectral"], seeds=1, tell=told.append)
    assert "error" not in again.runs[0]
    assert [line.partition(":")[0] for line in told] == [
        "spectral, seed 0",
        "spherical-k-means, seed 0",
        "spectral, seed 0",
    ]


def test_a_run_that_takes_too_long_or_crashes_is_a_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "x.npz")
    slow = compare(path, 3, tmp_path / "slow", methods=["k-means"], seeds=1, limit=0.01)
    assert slow.runs[0]["error"] == "not done within 0.01 seconds"
    monkeypatch.setattr("sys.executable", str(killed(tmp_path)))
    crashed = compare(path, 3, tmp_path / "crash", methods=["k-means"], seeds=1)
    assert crashed.runs[0]["error"] == "ended by SIGKILL, as the system does when memory runs out"
    assert crashed.save() == "There is no plot, since no run has finished."


def killed(place: Path) -> Path:
    script = place / "python"
    script.write_text("#!/bin/sh\nkill -9 $$\n")
    script.chmod(0o755)
    return script


def test_all_means_auto_and_every_baseline() -> None:
    every = _resolve(["all"], {})
    assert every[:2] == ["auto", "k-means"]
    assert "paper" not in every
    assert _resolve(["paper", "k-means", "k-means"], {}) == ["paper", "k-means"]
    with pytest.raises(ValueError, match="There is no method named 'kmeans'; there are all, auto, paper"):
        _resolve(["kmeans"], {})
    with pytest.raises(ValueError, match="There is no method named 'x'"):
        _resolve(["all"], {"x": {}})


def test_mean_std_and_agreement_by_hand(tmp_path: Path) -> None:
    (tmp_path / "labels").mkdir()
    runs = []
    for seed, (acc, labels) in enumerate([(0.5, [0, 0, 1, 1]), (0.7, [1, 1, 0, 0])]):
        np.save(tmp_path / "labels" / f"m-{seed}.npy", labels)
        runs.append(
            {"method": "m", "seed": seed, "acc": acc, "nmi": acc, "ari": acc, "silhouette": None, "seconds": 2.0}
        )
        runs[-1] |= {"memory_mb": 100.0, "protocol": "p"}
    assert agreement([tmp_path / "labels" / f"m-{seed}.npy" for seed in (0, 1)]) == (1.0, 0.0)
    table = to_markdown(runs, {}, tmp_path / "labels")
    assert "| m | 2 | 60.0 ± 10.0 | 60.0 ± 10.0 | 60.0 ± 10.0 | 100.0 ± 0.0 | 2.0 | 100 | (1) |" in table
    assert "m,2,0.6,0.0999" in to_csv(runs, {}, tmp_path / "labels").replace("0.09999", "0.0999")


def test_without_matplotlib_a_sentence_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert "matplotlib is not installed" in str(draw([], tmp_path))
