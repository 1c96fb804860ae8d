"""Messages of the library on standard error: progress, warnings and errors, one line each."""

from __future__ import annotations

import contextlib
import logging
import sys
import warnings
from collections.abc import Iterator
from typing import Any

logger = logging.getLogger("cgmcr2")

PREFIXES = {logging.WARNING: "cgmcr2: warning: ", logging.ERROR: "cgmcr2: "}


@contextlib.contextmanager
def messages_on_stderr() -> Iterator[None]:
    """Show log records of the library and Python warnings on standard error; level INFO until ``set_level``."""
    handler = _StderrHandler()
    handler.setFormatter(_Formatter())
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    with warnings.catch_warnings():
        warnings.showwarning = _log_warning
        try:
            yield
        finally:
            logger.removeHandler(handler)
            logger.setLevel(level)


def set_level(level: int) -> None:
    """Show only messages of at least this level, until the command ends."""
    logger.setLevel(level)


class _StderrHandler(logging.Handler):
    """Writes plain lines, above the progress bar if there is one."""

    def emit(self, record: logging.LogRecord) -> None:
        line = self.format(record)
        with _hidden_progress_bars():
            print(line, file=sys.stderr)


def _hidden_progress_bars() -> contextlib.AbstractContextManager[object]:
    if "tqdm" not in sys.modules:
        return contextlib.nullcontext()
    bars: contextlib.AbstractContextManager[object] = sys.modules["tqdm"].tqdm.external_write_mode(file=sys.stderr)
    return bars


class _Formatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return PREFIXES.get(record.levelno, "") + super().format(record)


def _log_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    logger.warning("%s", " ".join(str(message).split()))
