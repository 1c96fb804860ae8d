from __future__ import annotations

import csv
import math
from pathlib import Path

import pytest

from cgmcr2.experiments.tables import PaperTable, TableCell, TableResult, TableRow
from cgmcr2.experiments.tables.rendering import to_latex, to_markdown, to_text

NAN = math.nan


@pytest.fixture(scope="module")
def result() -> TableResult:
    """A row with all numbers, a row whose runs failed, and a row that is not run; two data sets, one column."""
    labels = ("k-means, good & new", "spectral", "an older one")
    table = PaperTable(
        name="table-0",
        number="Table 0",
        title="A table",
        topic="tiny",
        description="All kinds of cells.",
        encoder="any",
        datasets=("cifar10", "cifar20"),
        columns=("acc",),
        rows=tuple(TableRow(label) for label in labels),
    )
    cells = [
        TableCell(labels[0], "cifar10", "acc", 100.0, 0.5, 2, 90.0, 1.0),
        TableCell(labels[0], "cifar20", "acc", 70.0, 0.0, 1, NAN, NAN),
        TableCell(labels[1], "cifar10", "acc", NAN, NAN, 0, NAN, NAN, "seed 0 failed: no memory"),
        TableCell(labels[1], "cifar20", "acc", NAN, NAN, 0, NAN, NAN, "seed 0 failed: no memory"),
        TableCell(labels[2], "cifar10", "acc", NAN, NAN, 0, 50.0, NAN, "trains on images"),
        TableCell(labels[2], "cifar20", "acc", NAN, NAN, 0, NAN, NAN, "trains on images"),
    ]
    return TableResult(table, ["cifar10", "cifar20"], cells, ["Protocol: any."])


def test_text_has_a_block_per_data_set(result: TableResult) -> None:
    lines = [line.split() for line in to_text(result).splitlines()]
    assert ["CIFAR-10", "ACC", "%", "ours", "paper", "difference"] in lines
    assert ["k-means,", "good", "&", "new", "100.0", "±", "0.5", "90.0", "±", "1.0", "+10.0"] in lines
    assert ["k-means,", "good", "&", "new", "70.0", "-", "-"] in lines
    assert ["an", "older", "one", "(2)", "-", "50.0", "-"] in lines
    assert ["(1)", "seed", "0", "failed:", "no", "memory"] in lines


def test_markdown_has_ours_the_papers_and_the_difference_in_a_cell(result: TableResult) -> None:
    rows = [line.strip("|").split("|") for line in to_markdown(result).splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in row] for row in rows]
    assert cells[0] == ["", "CIFAR-10 ACC %", "CIFAR-20 ACC %"]
    assert cells[2] == ["k-means, good & new", "100.0 ± 0.5 (90.0 ± 1.0, +10.0)", "70.0"]
    assert cells[3] == ["spectral", "- (1)", "- (1)"]
    assert cells[4] == ["an older one", "- (50.0) (2)", "- (2)"]


def test_latex_has_the_same_cells(result: TableResult) -> None:
    text = to_latex(result)
    body = text[text.index(r"\midrule") : text.index(r"\bottomrule")].splitlines()[1:]
    assert all(line.endswith(r"\\") and line.replace(r"\&", "").count("&") == 2 for line in body)
    assert r"100.0 $\pm$ 0.5 (90.0 $\pm$ 1.0, +10.0)" in body[0]
    assert "(1) seed 0 failed: no memory" in text


def test_four_files_are_saved(result: TableResult, tmp_path: Path) -> None:
    paths = result.save(tmp_path)
    assert [path.name for path in paths] == ["table-0.txt", "table-0.md", "table-0.tex", "table-0.csv"]
    rows = list(csv.DictReader(paths[-1].open(newline="", encoding="utf-8")))
    assert len(rows) == 6
    assert (float(rows[0]["mean"]), float(rows[0]["difference"]), rows[0]["seeds"]) == (100, 10, "2")
    assert rows[1]["paper"] == ""
