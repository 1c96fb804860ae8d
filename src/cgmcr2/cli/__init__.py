"""The command line, with one module per command. Commands import the library when they run, so ``--help`` is fast."""

from .commands import app
from .program import main, run

__all__ = ["app", "main", "run"]
