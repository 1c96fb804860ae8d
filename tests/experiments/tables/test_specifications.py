from __future__ import annotations

import csv
from pathlib import Path

import pytest

from cgmcr2.experiments.tables.specifications import SPECIFICATION_TABLES, SpecificationTable

BY_NAME = {table.name: table for table in SPECIFICATION_TABLES}


def test_our_values_and_the_papers() -> None:
    datasets = {line[0]: line for line in BY_NAME["table-a1"].lines()}
    assert datasets["Flowers-102"][:4] == ["Flowers-102", "102", "8,189", "8,192"]
    weights = BY_NAME["table-a2"].lines()[-1]
    assert weights[1] == weights[2] == "37,286,026"
    settings = {line[0]: line for line in BY_NAME["table-a3"].lines()}
    assert settings["ImageNet-1k"][1:] == ["0.001", "0.0001", "256", "10", "10", "3000", "50000", "0.2", "3"]


@pytest.mark.parametrize("table", SPECIFICATION_TABLES, ids=lambda table: table.name)
def test_all_formats_hold_all_rows(table: SpecificationTable, tmp_path: Path) -> None:
    texts = {path.suffix: path.read_text(encoding="utf-8") for path in table.save(tmp_path)}
    header, *rows = csv.reader(texts[".csv"].splitlines())
    assert [header, *rows] == table.lines()
    assert texts[".tex"].count(r"\\") == len(rows) + 1
    assert sum(line.startswith("|") for line in texts[".md"].splitlines()) == len(rows) + 2
    assert all(row[0] in texts[".txt"] for row in rows)
