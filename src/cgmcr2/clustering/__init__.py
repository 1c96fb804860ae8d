"""The result of a run: for every image its cluster, how certain it is, and its place in the embedding."""

from .clustering import Clustering
from .io import COLUMNS, write_csv

__all__ = ["COLUMNS", "Clustering", "write_csv"]
