from __future__ import annotations

import dataclasses
import math

import pytest

from cgmcr2.baselines import METHODS, make
from cgmcr2.experiments.tables import PaperTable, TableRow, list_tables, load_table
from cgmcr2.experiments.tables.definition import parse_table
from cgmcr2.pretrain import CLUSTERERS, make_clusterer
from cgmcr2.training import Settings

TINY = """
number = "Table 0"
title = "A table"
topic = "tiny"
description = "It loads."
encoder = "any"
datasets = ["cifar10", "cifar100"]
columns = ["acc"]

[[rows]]
label = "ours"
method = "paper"
"""


def row(table: str, label: str) -> TableRow:
    return next(row for row in load_table(table).rows if row.label == label)


def test_tables_are_listed_in_the_papers_order() -> None:
    names = [table.name for table in list_tables()]
    tables = [f"table-{number}" for number in (1, 2, 3, 4, 5, 6, 7, "a4", "b6", "b7", "b8", "b9")]
    assert names == [*tables, "figure-4", "figure-5"]
    assert all(table.seeds == 3 for table in list_tables())


@pytest.mark.parametrize("table", list_tables(), ids=lambda table: table.name)
def test_settings_have_names_that_the_methods_accept(table: PaperTable) -> None:
    """The values of CgMCR²'s settings are checked when the definition is loaded."""
    names = {field.name for field in dataclasses.fields(Settings)}
    assert len({row.label for row in table.rows}) == len(table.rows)
    for row in table.rows:
        for dataset in row.datasets or table.datasets:
            settings = row.settings_for(dataset)
            if row.method in METHODS:
                make(row.method, 10, 0, **settings)
            elif row.method in CLUSTERERS:
                make_clusterer(row.method, 10, **settings).training_settings()
            else:
                assert settings.keys() <= names


def test_the_papers_numbers() -> None:
    """Some numbers of each table, copied from the paper by hand."""
    assert row("table-2", "SC on Z").paper["cifar100"] == [78.3]
    assert row("table-2", "argmax on Π").paper_std["imagenet1k"] == [0.3]
    assert row("table-3", "k-means").paper["imagenet1k"] == [53.9, 79.8]
    assert row("table-3", "TEMI").paper.keys() == {"cifar10", "cifar20", "cifar100", "imagenet1k"}
    assert row("table-3", "TEMI").paper["imagenet1k"][0] == 64.0
    assert math.isnan(row("table-3", "TEMI").paper["imagenet1k"][1])
    assert row("table-3", "CgMCR²").paper["cifar20"] == [68.1, 73.8]
    assert row("table-3", "CgMCR²-SC").paper["cifar20"] == [68.8, 74.0]
    assert row("table-3", "TAC (with text)").paper["tinyimagenet"] == [71.0, 79.9]
    assert row("table-4", "CC").paper["cifar10"] == [79.0, 70.5]
    assert row("table-4", "GCC").paper["cifar10"] == [85.6, 76.4]
    assert row("table-4", "MLC").paper["tinyimagenet"] == [33.5, 67.5]
    assert row("table-4", "CgMCR²").paper["cifar10"] == [92.8, 88.6]
    assert row("table-5", "SCAN").paper["flowers102"] == [40.4, 68.7]
    assert row("table-5", "CgMCR²-SC").paper["dogs120"] == [61.3, 75.1]
    assert row("table-6", "no warm-up; -R + Rc").paper == {"cifar10": [86.5, 86.8], "cifar100": [60.4, 67.4]}
    assert row("table-6", "-R + Lncut; -R + Rc + Lncut").paper["cifar100"] == [77.8, 82.2]
    assert row("table-7", "EnSC").paper["cifar20"] == [64.4, 71.3]
    assert row("table-7", "EnSC").paper_cost[0] == 11.2
    assert row("table-b6", "Softmax").paper["tinyimagenet"] == [71.4, 81.0]
    assert row("table-b7", "Gaussian kernel").paper_cost == (0.0232, 2309)
    assert row("table-b8", "doubly stochastic").paper["cifar100"] == [75.1, 80.8]
    assert row("table-b9", "s = 10").paper == {"cifar10": [97.7], "cifar100": [77.9]}
    assert row("table-b9", "s = 2000").paper == {"cifar100": [73.0]}


def test_a_row_starts_from_the_papers_settings_for_its_data_set() -> None:
    settings = row("table-6", "no warm-up; -R + Rc").settings_for("cifar100")
    assert (settings["warmup_epochs"], settings["finetune_epochs"], settings["cut_in_finetuning"]) == (0, 50, False)
    assert (settings["gamma"], settings["batch_size"], settings["hidden_dim"]) == (1400, 2048, 4096)
    assert row("figure-4", "ε = 0.2, γ x0.25").settings_for("cifar10")["gamma"] == 17.5  # noqa: RUF001
    assert len(load_table("figure-5").rows) == 16


def test_tables_are_found_by_name_number_and_topic() -> None:
    assert load_table("Table B.7") is load_table("affinity") is load_table("table-b7")
    with pytest.raises(ValueError, match="There is no table 'table-9'; choose from table-1, table-2"):
        load_table("table-9")


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ('title = "A table"', "has no title"),
        ("method =", "has an unknown key 'methods'"),
        ('method = "paper"', "needs either a method"),
        ('columns = ["acc"]', "has a column 'f1'"),
    ],
)
def test_mistakes_in_a_file_are_rejected(change: str, sentence: str) -> None:
    instead = {"method =": "methods =", 'columns = ["acc"]': 'columns = ["f1"]'}.get(change, "")
    assert parse_table("tiny", TINY).rows[0].label == "ours"
    with pytest.raises(ValueError, match=sentence):
        parse_table("tiny", TINY.replace(change, instead))


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("paper = { cifar10 = [1.0, 2.0] }", "has 2 numbers for cifar10; one per column is needed"),
        ("paper = { mnist = [1.0] }", "names 'mnist', which is not a data set of the table"),
        ('labels_by = "votes"', "has labels_by 'votes'"),
        ('settings = { affinity = "euclid" }', "affinity must be one of"),
        ("settings = { gama = 1 }", "There is no setting named 'gama'"),
    ],
)
def test_mistakes_in_a_row_are_rejected(line: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        parse_table("tiny", TINY + line)
