"""The HTML report of a run."""

from .report import write_report
from .run import report_run

__all__ = ["report_run", "write_report"]
