"""Tables of strings as plain text, Markdown, LaTeX (by tabulate) and CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from typing import Any

from tabulate import LATEX_ESCAPE_RULES, tabulate

# LaTeX commands of the symbols in the tables; they need no additional package.
_LATEX_SYMBOLS: dict[str, str | int | None] = {
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

Cells = Sequence[Sequence[str]]


def plain_table(header: Sequence[str], rows: Cells, *, align: str = "lr") -> str:
    """Return a table with columns separated by spaces.

    ``align`` has one letter per column: l (left), r (right) or c (centred). The last letter is used for all further
    columns.

    >>> print(plain_table(["method", "ACC"], [["k-means", "9.5"]]))
    method     ACC
    k-means    9.5
    """
    return _layout(header, rows, "plain", align)


def markdown_table(header: Sequence[str], rows: Cells, *, align: str = "lr") -> str:
    """Return a GitHub-flavoured Markdown table; ``align`` as in ``plain_table``.

    >>> print(markdown_table(["method", "ACC"], [["k-means", "9.5"]]))
    | method   |   ACC |
    |:---------|------:|
    | k-means  |   9.5 |
    """
    escaped = [[cell.replace("|", r"\|") for cell in row] for row in rows]
    return _layout(header, escaped, "pipe", align)


def latex_table(name: str, caption: str, header: Sequence[str], rows: Cells) -> str:
    """Return a LaTeX ``table`` environment with ``booktabs`` rules and the label ``tab:NAME``."""
    tabular = _layout(header, rows, "latex_booktabs", "lc").translate(str.maketrans(_LATEX_SYMBOLS))
    escaped = caption.translate(str.maketrans({**LATEX_ESCAPE_RULES, **_LATEX_SYMBOLS}))
    lines = [
        "% requires booktabs",
        r"\begin{table}[t]",
        r"\centering",
        rf"\caption{{{escaped}}}",
        tabular,
        rf"\label{{tab:{name}}}",
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def csv_table(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Return comma-separated values with a header line.

    >>> csv_table(["a", "b"], [[1, "x, y"]])
    'a,b\\n1,"x, y"\\n'
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows([header, *rows])
    return text.getvalue()


def _layout(header: Sequence[str], rows: Cells, style: str, align: str) -> str:
    names = {"l": "left", "r": "right", "c": "center"}
    alignments = [names[letter] for letter in align.ljust(len(header), align[-1])[: len(header)]]
    return tabulate(rows, header, tablefmt=style, disable_numparse=True, colalign=alignments if rows else None)
