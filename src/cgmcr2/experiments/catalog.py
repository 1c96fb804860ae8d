"""Tables and figures of the paper by name."""

from __future__ import annotations

from .figures.paper import FIGURES, PaperFigure
from .tables.definition import PaperTable, list_tables, matches, paper_order
from .tables.specifications import SPECIFICATION_TABLES, SpecificationTable

PaperItem = PaperTable | SpecificationTable | PaperFigure


def list_items() -> list[PaperItem]:
    """Return every table and figure: tables first, main text before supplement.

    >>> [item.name for item in list_items()][-2:]
    ['figure-b3', 'figure-b4']
    """
    return sorted([*list_tables(), *SPECIFICATION_TABLES, *FIGURES], key=lambda item: paper_order(item.name))


def find_item(name: str) -> PaperItem:
    """Return the table or figure with this name, number or topic.

    >>> find_item("Figure B.1").topic
    't-sne'
    """
    items = list_items()
    for item in items:
        if matches(name, item.name, item.number, item.topic):
            return item
    raise ValueError(f"There is no table or figure {name!r}; choose from {', '.join(item.name for item in items)}.")
