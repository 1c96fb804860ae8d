"""Comparisons and the paper's tables, by one command each."""

from .compare import Comparison, compare

__all__ = ["Comparison", "compare"]
