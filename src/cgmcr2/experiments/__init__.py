"""Comparison of methods, reproduction of the paper's tables and figures, and hyperparameter search.

A table of the paper, such as ``table-3``, is defined in ``definitions/table-3.toml``, run by
``tables/reproduction.py`` and rendered by ``tables/rendering.py``.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .comparison import Comparison, compare
    from .figures import PaperFigure, draw_figure
    from .tables import PaperTable, TableResult, list_tables, load_table, reproduce_table
    from .tuning import TuningResult, tune

_MODULES = {
    "Comparison": "comparison",
    "PaperFigure": "figures",
    "PaperTable": "tables",
    "TableResult": "tables",
    "TuningResult": "tuning",
    "compare": "comparison",
    "draw_figure": "figures",
    "list_tables": "tables",
    "load_table": "tables",
    "reproduce_table": "tables",
    "tune": "tuning",
}
__all__ = [
    "Comparison",
    "PaperFigure",
    "PaperTable",
    "TableResult",
    "TuningResult",
    "compare",
    "draw_figure",
    "list_tables",
    "load_table",
    "reproduce_table",
    "tune",
]


def __getattr__(name: str) -> Any:
    """Import a public name on first use, so that the command line can read ``choices`` without torch."""
    if name in _MODULES:
        return getattr(importlib.import_module(f".{_MODULES[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
