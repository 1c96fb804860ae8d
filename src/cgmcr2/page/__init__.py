"""The front end, shared by the report page and the explorer."""

from .bundle import ASSETS, bundle
from .data import cluster_entries, row_values
from .shell import render_page

__all__ = ["ASSETS", "bundle", "cluster_entries", "render_page", "row_values"]
