"""Pages that are generated from the code: the settings, the command line and the architecture diagrams."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import diagrams
import typer

from cgmcr2.cli import app
from cgmcr2.training import Settings, paper_settings, resolve
from cgmcr2.training.presets import _PAPER_TABLE

ROWS, WIDTH = 10_000, 1280  # size of the data for which the presets are shown
COLUMNS = {  # title of a column -> preset, number of clusters
    "`auto`, k = 10": ("auto", 10),
    "`auto`, k = 100": ("auto", 100),
    "`paper`, k = 10": ("paper", 10),
    "`reference`, k = 10": ("reference", 10),
}
MEANINGS = {  # where the comment in the code is missing or too short for a table
    "batch_size": "rows per training step",
    "embedding_dim": "dimension d of the embedding",
    "temperature": "temperature of the softmax",
    "weight_decay": "weight decay of Adam",
}


def write_all(docs: Path) -> None:
    """Write all generated pages below ``docs``."""
    reference = docs / "reference" / "generated"
    write(reference / "settings.md", settings_tables())
    write(reference / "paper-settings.md", paper_table())
    write(reference / "cli.md", command_line())
    for name, svg in diagrams.all_diagrams().items():
        write(docs / "architecture" / "generated" / f"{name}.svg", svg)


def write(path: Path, text: str) -> None:
    """Write ``text`` unless the file holds it already, so that unchanged pages are not rebuilt."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


def settings_tables() -> str:
    """One table per group of ``Settings``: name, meaning, choices, and the values of the presets."""
    presets = [resolve(preset, ROWS, k, WIDTH) for preset, k in COLUMNS.values()]  # type: ignore[arg-type]
    lines: list[str] = []
    for line in inspect.getsource(Settings).splitlines():
        if heading := re.fullmatch(r"    # (.+)", line):
            lines += ["", f"## {re.sub(r' [(].*', '', heading[1])}", "", _row("setting", "meaning", *COLUMNS)]
            lines.append(_row("---", "---", *["---:"] * len(COLUMNS)))
        elif field := re.fullmatch(r"    (\w+): [\w\[\]\", |]+ = [^#]+(?:# (.+))?", line):
            name, comment = field.groups()
            meaning = MEANINGS.get(name) or comment
            meaning = meaning if re.match("[a-z]+/", meaning) else meaning[0].upper() + meaning[1:]
            values = (_value(getattr(settings, name)) for settings in presets)
            lines.append(_row(f"`{name}`", _escape(meaning) + _choices(name), *values))
    return "\n".join(lines) + "\n"


def paper_table() -> str:
    """The paper's Table A.3, as ``CgMCR2.for_dataset`` uses it."""
    names = list(paper_settings("cifar10")[1])
    lines = [_row("data set", "k", *(f"`{name}`" for name in names))]
    lines.append(_row("---", *["---:"] * (1 + len(names))))
    for dataset in _PAPER_TABLE:
        k, settings = paper_settings(dataset)
        lines.append(_row(f"`{dataset}`", str(k), *(_value(settings[name]) for name in names)))
    return "\n".join(lines) + "\n"


def command_line() -> str:
    """One section per command, with the texts of its ``--help``."""
    group: Any = typer.main.get_command(app)
    lines: list[str] = []
    for name, command in group.commands.items():
        context = command.make_context(f"cgmcr2 {name}", [], resilient_parsing=True)
        usage = command.get_usage(context).removeprefix("Usage: ")
        lines += ["", f"## {name}", "", *_paragraphs(command.help), "", "```text", usage, "```", ""]
        lines += [_row("argument or option", "meaning"), _row("---", "---")]
        for parameter in command.params:
            record = parameter.get_help_record(context)
            if record:
                lines.append(_row(f"`{record[0]}`", _escape(" ".join(record[1].split()))))
        if command.epilog:
            lines += ["", "```text", inspect.cleandoc(command.epilog).replace("\b\n", ""), "```"]
    return "\n".join(lines) + "\n"


def _paragraphs(text: str | None) -> list[str]:
    return [_escape(line) for line in inspect.cleandoc(text or "").replace("\b\n", "").splitlines()]


def _choices(name: str) -> str:
    from cgmcr2.training.settings import choices

    return f" ({', '.join(f'`{choice}`' for choice in choices(name))})" if choices(name) else ""


def _row(*cells: str) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, float):
        return f"{value:.4g}"
    return f"`{value}`" if isinstance(value, str) else f"{value}"


def _escape(text: str) -> str:
    """Escape what Markdown would read as emphasis, math or HTML."""
    return re.sub(r"([\\`*_<>$\[\]])", r"\\\1", text)
