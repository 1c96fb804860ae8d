"""A table is run on what features there are, resumes, survives failures, and is written in four formats."""

from __future__ import annotations

import csv
import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from cgmcr2.experiments import Experiment, Reproduction, list_experiments, reproduce, runner
from cgmcr2.experiments.experiment import parse_experiment
from cgmcr2.experiments.facts import FACTS
from cgmcr2.experiments.features import find_features
from cgmcr2.experiments.job import Job, attempt, run
from cgmcr2.experiments.render import to_csv, to_latex, to_markdown, to_text

TINY = parse_experiment(
    "table-0",
    """
paper = "Table 0"
title = "A table"
topic = "tiny"
shows = "That it runs."
encoder = "any"
datasets = ["cifar10", "cifar20", "mnist"]
columns = ["acc", "nmi"]
seeds = 2

[[rows]]
label = "k-means, good & new"
method = "k-means"
paper = { cifar10 = [90.0, 80.0], cifar20 = [70.0, nan] }
std = { cifar10 = [1.0, 2.0] }

[[rows]]
label = "no such kernel"
method = "spectral"
settings = { kernel = "none" }

[[rows]]
label = "an older one"
cited = "it is not run here"
paper = { cifar10 = [50.0, 40.0] }
""",
)
OURS = parse_experiment(
    "table-00",
    """
paper = "Table 0"
title = "Ours"
topic = "ours"
shows = "That it runs."
encoder = "any"
datasets = ["cifar10"]
columns = ["acc"]
timing = 16

[[rows]]
label = "SC on Z"
method = "paper"
labels_by = "spectral"

[[rows]]
label = "argmax"
method = "paper"
cost = [0.02, 2000]
""",
)
SMALL = {
    "paper": {
        "hidden_dim": 8,
        "embedding_dim": 4,
        "batch_size": 32,
        "warmup_epochs": "x0.1",
        "finetune_epochs": "x0.1",
    },
    "scan": {"min_steps": 1, "epochs": 1, "self_label_epochs": 1},
    "temi": {"min_steps": 1, "epochs": 1},
    "cpp": {"epochs": 1, "hidden_dim": 8},
    "mlc": {"epochs": 1, "hidden_dim": 8},
    "nmce": {"epochs": (1, 1, 1), "min_steps": 1, "hidden_dim": 8},
    "spectral": {"n_init": 1},
    "ensc": {"n_init": 1},
}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Features of CIFAR-10, and of CIFAR-100 with coarse labels; images that are no features; none of MNIST."""
    folder = tmp_path_factory.mktemp("store")
    y = np.arange(60) % 3
    X = (np.eye(6)[y] + 0.1 * np.random.default_rng(0).standard_normal((60, 6))).astype(np.float32)
    split = (np.arange(60) % 5 == 0).astype(int)
    np.savez(folder / "cifar10-images.npz", images=np.zeros((2, 4, 4, 3), np.uint8))
    np.savez(folder / "cifar10-small.npz", features=X, labels=y, split=split)
    np.savez(folder / "cifar100.npz", features=X, labels=np.arange(60) % 6, coarse_labels=y, split=split)
    return folder


@pytest.fixture(scope="module", autouse=True)
def in_this_process() -> Iterator[None]:
    """Without a process for each run, which test_compare looks at and which takes seconds to start."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runner, "_run", lambda job, limit: attempt(job))
        yield


@pytest.fixture(scope="module")
def done(store: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Reproduction]:
    folder = tmp_path_factory.mktemp("out") / "tables"
    table = reproduce(TINY, store, folder, only=["CIFAR-10"], seeds=1)
    assert table.datasets == ["cifar10"]
    return folder, reproduce(TINY, store, folder)


def test_what_is_there_is_not_run_again(store: Path, done: tuple[Path, Reproduction]) -> None:
    folder, first = done
    before = (folder / "runs.jsonl").read_text().splitlines()
    stems = [json.loads(line)["run"] for line in before if "error" not in line]
    assert len(stems) == len(set(stems)) == 4  # k-means, two data sets, two seeds
    told: list[str] = []
    again = reproduce(TINY, store, folder, tell=told.append)
    assert all("no such kernel" in line and "failed" in line for line in told)  # what failed is tried again
    assert to_csv(again) == to_csv(first)


def test_values_differences_and_failures(done: tuple[Path, Reproduction]) -> None:
    values = {(value.row, value.dataset, value.column): value for value in done[1].values}
    good = values["k-means, good & new", "cifar10", "acc"]
    assert (good.mean, good.std, good.seeds, good.paper, good.paper_std, good.difference) == (100, 0, 2, 90, 1, 10)
    assert values["k-means, good & new", "cifar20", "acc"].mean == 100  # by the coarse labels
    assert "seed 0 failed: " in values["no such kernel", "cifar10", "acc"].note
    assert values["an older one", "cifar10", "nmi"].note == "it is not run here"
    notes = " ".join(done[1].notes)
    assert "MNIST is left out" in notes
    assert "CIFAR-10: small" in notes
    assert "fitted on split 0 (48 rows), predicted split 1 (12 rows)" in notes


def test_four_formats(done: tuple[Path, Reproduction]) -> None:
    folder, table = done
    assert [path.name for path in table.save(folder)] == ["table-0.txt", "table-0.md", "table-0.tex", "table-0.csv"]
    text = to_text(table).splitlines()
    assert "k-means, good & new  100.0 ± 0.0  90.0 ± 1.0       +10.0" in " ".join(text)
    markdown = [line for line in to_markdown(table).splitlines() if line.startswith("|")]
    assert {line.count("|") for line in markdown} == {6}
    assert "| k-means, good & new | 100.0 ± 0.0 (90.0 ± 1.0, +10.0) |" in markdown[2]
    assert "| no such kernel | - (1) |" in markdown[3]
    assert "| an older one | - (50.0) (2) |" in markdown[4]
    tex = to_latex(table)
    body = tex[tex.index(r"\midrule") : tex.index(r"\bottomrule")].splitlines()[1:]
    assert all(line.endswith(r"\\") and line.replace(r"\&", "").count("&") == 4 for line in body)
    assert r"k-means, good \& new & 100.0 $\pm$ 0.0 (90.0 $\pm$ 1.0, +10.0)" in body[0]
    rows = list(csv.DictReader((folder / "table-0.csv").open(newline="", encoding="utf-8")))
    assert len(rows) == 3 * 2 * 2
    assert (float(rows[0]["mean"]), float(rows[0]["difference"]), rows[0]["seeds"]) == (100, 10, "2")
    assert rows[3]["paper"] == ""  # NMI of CIFAR-20


def test_both_heads_come_from_one_training_and_an_iteration_is_timed(store: Path, tmp_path: Path) -> None:
    small = {"paper": {"hidden_dim": 8, "embedding_dim": 4, "batch_size": 24, "s": 3}}
    table = reproduce(OURS, store, tmp_path / "out", seeds=1, quick=True, rows=40, settings=small)
    lines = [json.loads(line) for line in (tmp_path / "out" / "runs.jsonl").read_text().splitlines()]
    trainings = [line for line in lines if "acc" in line]
    assert len(trainings) == 1
    assert trainings[0]["settings"]["warmup_epochs"] == 4  # x0.4
    assert trainings[0]["settings"]["hidden_dim"] == 8  # what was set wins
    values = {(value.row, value.column): value for value in table.values}
    assert values["SC on Z", "acc"].mean == pytest.approx(100 * trainings[0]["spectral"]["acc"])
    assert values["argmax", "acc"].mean == pytest.approx(100 * trainings[0]["acc"])
    assert 0 < values["argmax", "seconds_per_iteration"].mean < 10
    assert values["argmax", "memory_mb"].paper == 2000
    notes = " ".join(table.notes)
    assert "Reduced size (--quick): hidden_dim x0.125" in notes
    assert "at most 40 rows are fitted" in notes
    assert "by spectral clustering of its embedding" in notes


@pytest.mark.parametrize(
    ("part", "protocol", "judged"),
    [
        ("test", "fitted on split 0 (48 rows), predicted split 1 (12 rows)", 12),
        ("train", "fitted on split 0 (48 rows) and labelled it", 48),
        ("all", "fitted on all rows (60 rows) and labelled it", 60),
    ],
)
def test_protocols(store: Path, tmp_path: Path, part: str, protocol: str, judged: int) -> None:
    file = str(store / "cifar10-small.npz")
    result = run(Job(file, "k-means", 0, 3, {}, "labels", str(tmp_path), name="x", part=part))
    assert result["protocol"] == protocol
    assert np.load(tmp_path / "labels" / "x.npy").shape == (judged,)


def test_fewer_rows(store: Path, tmp_path: Path) -> None:
    job = Job(str(store / "cifar10-small.npz"), "k-means", 0, 3, {}, "labels", str(tmp_path), rows=10)
    assert run(job)["protocol"] == "fitted on split 0 (10 rows), predicted split 1 (10 rows)"


def test_features_of_the_tables_encoder_come_first(store: Path, tmp_path: Path) -> None:
    X, y = np.zeros((4, 2), np.float32), np.arange(4) % 2
    for name in ("mnist-a", "mnist-b"):
        np.savez(tmp_path / f"{name}.npz", features=X, labels=y)
    assert find_features("mnist", tmp_path, "b").encoder == "b"
    assert find_features("mnist", tmp_path, "c").encoder == "a"
    assert find_features("cifar20", store, "b").labels == "coarse_labels"
    np.savez(tmp_path / "cifar10.npz", features=X)
    with pytest.raises(ValueError, match="has no array named 'labels'"):
        find_features("cifar10", tmp_path, "b")


def test_mistakes_are_said(store: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="There is no protocol 'test'; there are head, spectral, train, all"):
        reproduce(TINY, store, tmp_path / "out", protocol="test")
    with pytest.raises(ValueError, match="table-0 has no data set cifar100; it has cifar10, cifar20, mnist"):
        reproduce(TINY, store, tmp_path / "out", only=["cifar100"])
    with pytest.raises(FileNotFoundError, match=r"MNIST is left out.* nothing to run"):
        reproduce(TINY, store, tmp_path / "out", only=["mnist"])
    with pytest.raises(FileNotFoundError, match="There is no folder"):
        reproduce(TINY, store / "no", tmp_path / "out")
    with pytest.raises(ValueError, match=r"holds other things than tables and figures \(cifar10"):
        reproduce(TINY, store, store)
    assert not (tmp_path / "out").exists()


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("experiment", list_experiments(), ids=lambda experiment: experiment.name)
def test_every_table_runs(experiment: Experiment, tmp_path_factory: pytest.TempPathFactory) -> None:
    """On made-up features, tiny, in one folder: no cell fails."""
    folder = tmp_path_factory.getbasetemp() / "every-table"
    first = experiment.datasets[0]
    y = np.arange(80) % 4
    X = 3 * np.eye(12)[y] + 0.3 * np.random.default_rng(0).standard_normal((80, 12))
    (folder / "store").mkdir(parents=True, exist_ok=True)
    np.savez(folder / "store" / first, features=X.astype(np.float32), labels=y, split=np.arange(80) // 60)
    tiny = dataclasses.replace(experiment, timing=min(experiment.timing, 32))
    table = reproduce(tiny, folder / "store", folder / "out", only=[first], seeds=1, quick=True, settings=SMALL)
    failed = {value.note for value in table.values if "failed" in value.note}
    assert not failed
    missing = {value.row for value in table.values if value.seeds == 0 and value.dataset}
    unrun = {row.label for row in experiment.rows if row.cited or first not in (row.datasets or [first])}
    assert missing == unrun | ({"TAC (with text)"} if experiment.name == "table-3" else set())


def test_facts_are_ours_beside_the_papers(tmp_path: Path) -> None:
    by_name = {table.name: table for table in FACTS}
    assert "Flowers-102        102      8,189      8,192" in by_name["table-a1"].text()
    weights = by_name["table-a2"].lines()[-1]
    assert weights[1] == weights[2] == "37,286,026"
    lines = {line[0]: line for line in by_name["table-a3"].lines()}
    assert lines["ImageNet-1k"] == ["ImageNet-1k", "0.001", "0.0001", "256", "10", "10", "3000", "50000", "0.2", "3"]
    for table in FACTS:
        paths = {path.suffix: path.read_text(encoding="utf-8") for path in table.save(tmp_path)}
        head, *rows = csv.reader(paths[".csv"].splitlines())
        assert [head, *rows] == table.lines()
        assert paths[".tex"].count(r" \\") == len(rows) + 1
        assert sum(line.startswith("|") for line in paths[".md"].splitlines()) == len(rows) + 2
