from __future__ import annotations

import dataclasses
import json
import logging
from pathlib import Path

import numpy as np
import pytest

from cgmcr2.experiments.tables import PaperTable, TableResult, list_tables, reproduce_table
from cgmcr2.experiments.tables.definition import parse_table
from cgmcr2.experiments.tables.rendering import to_csv
from cgmcr2.pretrain.estimators import CLUSTERERS

TINY = parse_table(
    "table-0",
    """
number = "Table 0"
title = "A table"
topic = "tiny"
description = "It runs."
encoder = "any"
datasets = ["cifar10", "cifar20", "mnist"]
columns = ["acc", "nmi"]
seeds = 2

[[rows]]
label = "k-means, good & new"
method = "k-means"
paper = { cifar10 = [90.0, 80.0], cifar20 = [70.0, nan] }
paper_std = { cifar10 = [1.0, 2.0] }

[[rows]]
label = "no such kernel"
method = "spectral"
settings = { kernel = "none" }

[[rows]]
label = "an older one"
not_run = "trains on images"
paper = { cifar10 = [50.0, 40.0] }
""",
)
OURS = parse_table(
    "table-00",
    """
number = "Table 0"
title = "Ours"
topic = "ours"
description = "It runs."
encoder = "any"
datasets = ["cifar10"]
columns = ["acc"]
timing_batch = 16

[[rows]]
label = "SC on Z"
method = "paper"
labels_by = "spectral"

[[rows]]
label = "argmax"
method = "paper"
paper_cost = [0.02, 2000]
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
    "scan": {"max_steps": 1, "self_label_steps": 1},
    "temi": {"max_steps": 1},
    "cpp": {"max_steps": 1, "hidden_dim": 8},
    "mlc": {"max_steps": 1, "hidden_dim": 8},
    "nmce": {"max_steps": 1, "hidden_dim": 8},
    "spectral": {"n_init": 1},
    "ensc": {"n_init": 1},
}


@pytest.fixture(scope="module")
def reproduced(table_features: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, TableResult]:
    """The folder and the result of a table that was extended from one data set and seed to all."""
    folder = tmp_path_factory.mktemp("out") / "tables"
    part = reproduce_table(TINY, table_features, folder, only=["CIFAR-10"], seeds=1, in_process=True)
    assert part.datasets == ["cifar10"]
    return folder, reproduce_table(TINY, table_features, folder, in_process=True)


def test_finished_runs_are_not_repeated(
    table_features: Path, reproduced: tuple[Path, TableResult], caplog: pytest.LogCaptureFixture
) -> None:
    folder, first = reproduced
    lines = (folder / "runs.jsonl").read_text().splitlines()
    keys = [json.loads(line)["run"] for line in lines if "error" not in line]
    assert len(keys) == len(set(keys)) == 4  # k-means, two data sets, two seeds
    with caplog.at_level(logging.INFO):
        again = reproduce_table(TINY, table_features, folder, in_process=True)
    assert caplog.messages
    assert all("no such kernel" in message and "failed" in message for message in caplog.messages)  # retried
    assert to_csv(again) == to_csv(first)


def test_cells_differences_and_failures(reproduced: tuple[Path, TableResult]) -> None:
    result = reproduced[1]
    cells = {(cell.row, cell.dataset, cell.column): cell for cell in result.cells}
    good = cells["k-means, good & new", "cifar10", "acc"]
    assert (good.mean, good.std, good.seeds, good.paper, good.paper_std, good.difference) == (100, 0, 2, 90, 1, 10)
    assert cells["k-means, good & new", "cifar20", "acc"].mean == 100  # by the coarse labels
    assert "seed 0 failed: " in cells["no such kernel", "cifar10", "acc"].note
    assert cells["an older one", "cifar10", "nmi"].note == "trains on images"
    notes = " ".join(result.notes)
    assert "MNIST is left out" in notes
    assert "CIFAR-10: small" in notes
    assert "fitted on split 0 (48 rows), predicted split 1 (12 rows)" in notes
    values = json.loads(json.dumps(result.to_dict()))
    assert values["cells"][0]["difference"] == 10
    assert values["cells"][3]["paper"] is None  # NMI on CIFAR-20


def test_one_training_run_serves_both_label_sources_and_an_iteration_is_timed(
    table_features: Path, tmp_path: Path
) -> None:
    small = {"paper": {"hidden_dim": 8, "embedding_dim": 4, "batch_size": 24, "s": 3}}
    result = reproduce_table(
        OURS, table_features, tmp_path / "out", seeds=1, quick=True, rows=40, settings=small, in_process=True
    )
    lines = [json.loads(line) for line in (tmp_path / "out" / "runs.jsonl").read_text().splitlines()]
    trainings = [line for line in lines if "acc" in line]
    assert len(trainings) == 1
    assert trainings[0]["settings"]["warmup_epochs"] == 4  # x0.4
    assert trainings[0]["settings"]["hidden_dim"] == 8  # the user's setting takes precedence over quick
    cells = {(cell.row, cell.column): cell for cell in result.cells}
    assert cells["SC on Z", "acc"].mean == pytest.approx(100 * trainings[0]["spectral"]["acc"])
    assert cells["argmax", "acc"].mean == pytest.approx(100 * trainings[0]["acc"])
    assert cells["argmax", "seconds_per_iteration"].mean > 0
    assert cells["argmax", "memory_mb"].paper == 2000
    notes = " ".join(result.notes)
    assert "Reduced size (quick): hidden_dim x0.125" in notes
    assert "baselines: max_steps x0.1." in notes
    assert "at most 40 rows fitted" in notes
    assert "by spectral clustering of its embedding" in notes


def test_mistakes_are_rejected_before_anything_runs(table_features: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="There is no protocol 'test'; choose from head, spectral, train, all"):
        reproduce_table(TINY, table_features, tmp_path / "out", protocol="test")
    with pytest.raises(ValueError, match="The number of seeds is 0"):
        reproduce_table(TINY, table_features, tmp_path / "out", seeds=0)
    with pytest.raises(FileNotFoundError, match=r"MNIST is left out.* nothing to run"):
        reproduce_table(TINY, table_features, tmp_path / "out", only=["mnist"])
    with pytest.raises(FileNotFoundError, match="There is no folder"):
        reproduce_table(TINY, table_features / "no", tmp_path / "out")
    with pytest.raises(ValueError, match=r"holds other files than tables and figures \(cifar10"):
        reproduce_table(TINY, table_features, table_features)
    assert not (tmp_path / "out").exists()


@pytest.fixture(scope="module")
def every_table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for the runs of all tables, with one feature file per data set."""
    folder = tmp_path_factory.mktemp("every-table")
    y = np.arange(80) % 4
    X = 3 * np.eye(12)[y] + 0.3 * np.random.default_rng(0).standard_normal((80, 12))
    (folder / "features").mkdir()
    for name in {table.datasets[0] for table in list_tables()}:
        np.savez(folder / "features" / name, features=X.astype(np.float32), labels=y, split=np.arange(80) // 60)
    return folder


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("table", list_tables(), ids=lambda table: table.name)
def test_every_table_runs_without_a_failed_cell(table: PaperTable, every_table: Path) -> None:
    first = table.datasets[0]
    tiny = dataclasses.replace(table, timing_batch=min(table.timing_batch, 32))
    result = reproduce_table(
        tiny,
        every_table / "features",
        every_table / "out",
        only=[first],
        seeds=1,
        quick=True,
        settings=SMALL,
        in_process=True,
    )
    assert not {cell.note for cell in result.cells if "failed" in cell.note}
    missing = {cell.row for cell in result.cells if cell.seeds == 0 and cell.dataset}
    expected = {
        row.label
        for row in table.rows
        if row.not_run or row.method in CLUSTERERS or first not in (row.datasets or [first])
    }
    assert missing == expected | ({"TAC (with text)"} if table.name == "table-3" else set())
