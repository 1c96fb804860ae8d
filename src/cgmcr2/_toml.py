"""TOML by the standard library where it has it."""

from __future__ import annotations

import importlib
from typing import Any


def loads(text: str) -> dict[str, Any]:
    """The values of a TOML text; a ``ValueError`` where it is none.

    >>> loads("gamma = 50")
    {'gamma': 50}
    """
    try:
        reader = importlib.import_module("tomllib")
    except ImportError:  # Python 3.10
        reader = importlib.import_module("tomli")
    values: dict[str, Any] = reader.loads(text)
    return values
