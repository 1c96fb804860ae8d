"""Render a reproduced table, with our numbers and the paper's, as text, Markdown, LaTeX and CSV."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

from cgmcr2.datasets import dataset_info
from cgmcr2.experiments.formats import csv_table, latex_table, markdown_table, plain_table

from .cells import TableCell
from .reproduction import TableResult

HEADERS = {"acc": "ACC %", "nmi": "NMI %", "ari": "ARI %", "seconds_per_iteration": "s/iteration", "memory_mb": "MB"}
DIGITS = {"seconds_per_iteration": 3, "memory_mb": 0}
MISSING = "-"


def to_text(result: TableResult) -> str:
    """Render for the terminal: one block per data set, with columns for ours, the paper's and the difference."""
    marks, footnotes = _footnotes(result)
    blocks = [f"{result.table.number}: {result.table.title}", result.table.description]
    for dataset in dict.fromkeys(cell.dataset for cell in result.cells):
        columns = dict.fromkeys(cell.column for cell in result.cells if cell.dataset == dataset)
        header = [_title(dataset)]
        for column in columns:
            header += [f"{HEADERS[column]} ours", "paper", "difference"]
        rows = []
        for row in result.table.rows:
            cells = [cell for cell in result.cells if (cell.row, cell.dataset) == (row.label, dataset)]
            mark = next((marks[cell.note] for cell in cells if cell.note), "")
            rows.append([f"{row.label} {mark}".strip(), *(text for cell in cells for text in _texts(cell))])
        blocks.append(plain_table(header, rows))
    return "\n\n".join([*blocks, "\n".join([*footnotes, *result.notes])]) + "\n"


def to_markdown(result: TableResult) -> str:
    """Render as one Markdown table; cells have our number and, in brackets, the paper's and the difference."""
    marks, footnotes = _footnotes(result)
    title = f"# {result.table.number}: {result.table.title}"
    notes = "\n".join(f"- {note}" for note in [*footnotes, *result.notes])
    table = markdown_table(*_grid(result, marks))
    return "\n\n".join([title, result.table.description, table, f"{_legend(result)}.", notes]) + "\n"


def to_latex(result: TableResult) -> str:
    """Render the table of ``to_markdown`` as a LaTeX ``table`` with ``booktabs`` rules."""
    marks, footnotes = _footnotes(result)
    caption = " ".join([f"{result.table.title}: {_legend(result).lower()}.", *footnotes, *result.notes])
    return latex_table(result.table.name, caption, *_grid(result, marks))


def to_csv(result: TableResult) -> str:
    """Render as CSV with one line per cell; scores are percentages, missing numbers are empty."""
    names = [field.name for field in dataclasses.fields(TableCell)]
    rows = []
    for cell in result.cells:
        numbers = [*dataclasses.astuple(cell)[:-1], cell.difference]
        values = ["" if isinstance(number, float) and math.isnan(number) else number for number in numbers]
        rows.append([result.table.name, *values, cell.note])
    return csv_table(["table", *names[:-1], "difference", "note"], rows)


RENDERERS: dict[str, Callable[[TableResult], str]] = {
    "txt": to_text,
    "md": to_markdown,
    "tex": to_latex,
    "csv": to_csv,
}


def _footnotes(result: TableResult) -> tuple[dict[str, str], list[str]]:
    """Return a mark such as "(1)" for each distinct note of a cell, and the marked notes."""
    notes = dict.fromkeys(cell.note for cell in result.cells if cell.note)
    marks = {note: f"({number})" for number, note in enumerate(notes, 1)}
    return marks, [f"{mark} {note}" for note, mark in marks.items()]


def _grid(result: TableResult, marks: dict[str, str]) -> tuple[list[str], list[list[str]]]:
    """Return the header and the rows of a table with one cell per data set and column."""
    first_row = [cell for cell in result.cells if cell.row == result.table.rows[0].label]
    header = [f"{_title(cell.dataset)} {HEADERS[cell.column]}".strip() for cell in first_row]
    rows = []
    for row in result.table.rows:
        cells = [cell for cell in result.cells if cell.row == row.label]
        rows.append([row.label, *(_combined(cell, marks) for cell in cells)])
    return ["", *header], rows


def _title(dataset: str) -> str:
    return dataset_info(dataset).title if dataset else ""


def _combined(cell: TableCell, marks: dict[str, str]) -> str:
    ours, paper, difference = _texts(cell)
    comparison = ", ".join(text for text in (paper, difference) if text != MISSING)
    bracket = f" ({comparison})" if comparison else ""
    return f"{ours}{bracket} {marks.get(cell.note, '')}".strip()


def _legend(result: TableResult) -> str:
    if all(math.isnan(cell.paper) for cell in result.cells):
        return "Ours"
    return "Ours (the paper's, the difference)"


def _texts(cell: TableCell) -> list[str]:
    """Return our number, the paper's and the difference as text."""
    digits = DIGITS.get(cell.column, 1)
    has_difference = cell.dataset and not math.isnan(cell.difference)  # costs on different machines are not comparable
    difference = f"{cell.difference:+.{digits}f}" if has_difference else MISSING
    std = cell.std if cell.seeds > 1 else math.nan
    return [_number(cell.mean, std, digits), _number(cell.paper, cell.paper_std, digits), difference]


def _number(mean: float, std: float, digits: int) -> str:
    if math.isnan(mean):
        return MISSING
    return f"{mean:,.{digits}f}" + ("" if math.isnan(std) else f" ± {std:.{digits}f}")
