"""Entry point: run a command, and turn errors into one sentence and an exit code."""

from __future__ import annotations

import functools
import io
import logging
import os
import sys
from typing import Any

from typer.main import get_command

from .commands import app
from .messages import messages_on_stderr

logger = logging.getLogger(__name__)


def main() -> None:
    """Run the command of ``sys.argv`` and exit with its code."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # file names need not be valid text
    sys.exit(run(*sys.argv[1:]))


def run(*arguments: object) -> int:
    """Run a command and return its exit code: 0, 1 for a failed check, 2 for a user error, 130 for Ctrl-C.

    >>> run("--version")
    cgmcr2 ...
    0
    """
    # Sleeping instead of spinning threads: next to other processes, spinning made a fit more than twice as slow.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    with messages_on_stderr():
        try:
            _command()([str(argument) for argument in arguments], prog_name="cgmcr2")
        except SystemExit as stop:
            return int(stop.code or 0)
        except (ValueError, OSError, ImportError, FloatingPointError) as error:
            logger.debug("Traceback of the error:", exc_info=True)
            logger.error("%s", _describe(error))
            return 2
        return 0


@functools.cache  # building it takes longer than many commands
def _command() -> Any:
    return get_command(app)


def _describe(error: Exception) -> str:
    """Return the message of an error on one line."""
    if isinstance(error, OSError) and error.strerror and error.filename is not None:
        return f"{error.filename}: {error.strerror}."
    return " ".join(str(error).split()) or type(error).__name__
