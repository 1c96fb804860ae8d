"""A table of the paper with our numbers beside it: as text, Markdown, LaTeX and CSV."""

from __future__ import annotations

import csv
import dataclasses
import io
import math
from collections.abc import Callable

from cgmcr2.datasets import dataset_info

from .run import Reproduction, Value

HEADS = {"acc": "ACC %", "nmi": "NMI %", "ari": "ARI %", "seconds_per_iteration": "s/iteration", "memory_mb": "MB"}
DIGITS = {"seconds_per_iteration": 3, "memory_mb": 0}
NONE = "-"


def to_text(table: Reproduction) -> str:
    """For the terminal: a block for each data set with ours, the paper's and the difference side by side."""
    marks, notes = _marks(table)
    blocks = [f"{table.experiment.paper}: {table.experiment.title}", table.experiment.shows]
    for dataset in dict.fromkeys(value.dataset for value in table.values):
        columns = list(dict.fromkeys(value.column for value in table.values if value.dataset == dataset))
        heads = [_title(dataset)]
        for column in columns:
            heads += [f"{HEADS[column]} ours", "paper", "difference"]
        lines = [heads]
        for row in table.experiment.rows:
            own = [value for value in table.values if (value.row, value.dataset) == (row.label, dataset)]
            mark = next((marks[value.note] for value in own if value.note), "")
            lines.append([f"{row.label} {mark}".strip(), *(cell for value in own for cell in _three(value))])
        blocks.append(aligned(lines))
    return "\n\n".join([*blocks, "\n".join([*notes, *table.notes])]) + "\n"


def to_markdown(table: Reproduction) -> str:
    """One table; in each cell ours, and in brackets the paper's and the difference."""
    marks, notes = _marks(table)
    heads, lines = _grid(table, marks)
    text = [f"# {table.experiment.paper}: {table.experiment.title}", "", table.experiment.shows, ""]
    text += [f"| {' | '.join(heads)} |", f"| --- |{' ---: |' * (len(heads) - 1)}"]
    text += [f"| {' | '.join(cell.replace('|', '/') for cell in line)} |" for line in lines]
    text += ["", f"{_legend(table)}.", ""]
    return "\n".join([*text, *(f"- {note}" for note in [*notes, *table.notes])]) + "\n"


def to_latex(table: Reproduction) -> str:
    """The same for a paper: a ``table`` with ``booktabs`` rules."""
    marks, notes = _marks(table)
    heads, lines = _grid(table, marks)
    caption = " ".join([f"{table.experiment.title}: {_legend(table).lower()}.", *notes, *table.notes])
    return latex_table(table.experiment.name, caption, heads, lines)


def latex_table(name: str, caption: str, heads: list[str], lines: list[list[str]]) -> str:
    """A ``table`` environment of these cells, which are plain text."""
    rows = [" & ".join(map(_tex, line)) + r" \\" for line in [heads, *lines]]
    return "\n".join(
        [
            "% needs booktabs",
            r"\begin{table}[t]",
            r"\centering",
            rf"\caption{{{_tex(caption)}}}",
            rf"\begin{{tabular}}{{l{'c' * (len(heads) - 1)}}}",
            r"\toprule",
            rows[0],
            r"\midrule",
            *rows[1:],
            r"\bottomrule",
            r"\end{tabular}",
            rf"\label{{tab:{name}}}",
            r"\end{table}",
            "",
        ]
    )


def to_csv(table: Reproduction) -> str:
    """One line a number; scores in percent, empty where there is none."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    names = [field.name for field in dataclasses.fields(Value)]
    writer.writerow(["table", *names[:-1], "difference", "note"])
    for value in table.values:
        numbers = [*dataclasses.astuple(value)[:-1], value.difference]
        shown = ["" if isinstance(number, float) and math.isnan(number) else number for number in numbers]
        writer.writerow([table.experiment.name, *shown, value.note])
    return text.getvalue()


FORMATS: dict[str, Callable[[Reproduction], str]] = {
    "txt": to_text,
    "md": to_markdown,
    "tex": to_latex,
    "csv": to_csv,
}


def _marks(table: Reproduction) -> tuple[dict[str, str], list[str]]:
    """A number in brackets for each note of a cell, and the notes so numbered."""
    different = dict.fromkeys(value.note for value in table.values if value.note)
    marks = {note: f"({place})" for place, note in enumerate(different, 1)}
    return marks, [f"{mark} {note}" for note, mark in marks.items()]


def _grid(table: Reproduction, marks: dict[str, str]) -> tuple[list[str], list[list[str]]]:
    first = [value for value in table.values if value.row == table.experiment.rows[0].label]
    heads = [f"{_title(value.dataset)} {HEADS[value.column]}".strip() for value in first]
    lines = []
    for row in table.experiment.rows:
        own = [value for value in table.values if value.row == row.label]
        lines.append([row.label, *(_one(value, marks) for value in own)])
    return ["", *heads], lines


def _title(dataset: str) -> str:
    return dataset_info(dataset).title if dataset else ""


def _one(value: Value, marks: dict[str, str]) -> str:
    ours, paper, difference = _three(value)
    bracket = "" if paper == NONE else f" ({paper})" if difference == NONE else f" ({paper}, {difference})"
    return f"{ours}{bracket} {marks.get(value.note, '')}".strip()


def _legend(table: Reproduction) -> str:
    """What stands in a cell."""
    return "Ours" if all(math.isnan(value.paper) for value in table.values) else "Ours (the paper's, the difference)"


def _three(value: Value) -> list[str]:
    """Ours, the paper's, the difference."""
    digits = DIGITS.get(value.column, 1)
    difference = NONE if math.isnan(value.difference) or not value.dataset else f"{value.difference:+.{digits}f}"
    spread = value.std if value.seeds > 1 else math.nan
    return [_number(value.mean, spread, digits), _number(value.paper, value.paper_std, digits), difference]


def _number(mean: float, std: float, digits: int) -> str:
    if math.isnan(mean):
        return NONE
    return f"{mean:,.{digits}f}" + ("" if math.isnan(std) else f" ± {std:.{digits}f}")


def aligned(lines: list[list[str]]) -> str:
    """Cells in columns: the first to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(
            [line[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(line[1:], widths[1:], strict=True))]
        )
        for line in lines
    )


_TEX = {
    "\\": r"\textbackslash{}",
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
    "²": r"$^2$",
    "·": r"$\cdot$",
    "Π": r"$\Pi$",
    "Φ": r"$\Phi$",
    "β": r"$\beta$",
    "γ": r"$\gamma$",  # noqa: RUF001
    "ε": r"$\epsilon$",
    "μ": r"$\mu$",
    "σ": r"$\sigma$",  # noqa: RUF001
    "τ": r"$\tau$",
}


def _tex(text: str) -> str:
    return "".join(_TEX.get(sign, sign) for sign in text)
