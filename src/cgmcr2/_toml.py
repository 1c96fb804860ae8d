"""TOML parser: ``tomllib``, or ``tomli`` on Python 3.10."""

from __future__ import annotations

import importlib
from typing import Any


def loads(text: str) -> dict[str, Any]:
    """Parse TOML; raise ``ValueError`` if ``text`` is not valid.

    >>> loads("gamma = 50")
    {'gamma': 50}
    """
    try:
        parser = importlib.import_module("tomllib")
    except ImportError:  # Python 3.10
        parser = importlib.import_module("tomli")
    values: dict[str, Any] = parser.loads(text)
    return values
