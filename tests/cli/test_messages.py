"""Log records and warnings on standard error."""

from __future__ import annotations

import logging
import warnings

import pytest

from cgmcr2.cli.messages import messages_on_stderr, set_level

logger = logging.getLogger("cgmcr2.test")


def send_all() -> None:
    logger.debug("detail")
    logger.info("progress")
    logger.warning("careful")
    logger.error("broken")
    warnings.warn("first line\nsecond line", UserWarning, stacklevel=2)


@pytest.mark.parametrize(
    ("level", "first"), [(logging.DEBUG, "detail\nprogress\n"), (logging.INFO, "progress\n"), (logging.WARNING, "")]
)
def test_levels(level: int, first: str, capsys: pytest.CaptureFixture[str]) -> None:
    with messages_on_stderr():
        set_level(level)
        send_all()
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err == (first + "cgmcr2: warning: careful\ncgmcr2: broken\ncgmcr2: warning: first line second line\n")


def test_the_default_level_is_restored(capsys: pytest.CaptureFixture[str]) -> None:
    before, handlers = logging.getLogger("cgmcr2").level, list(logging.getLogger("cgmcr2").handlers)
    with messages_on_stderr():
        set_level(logging.WARNING)
    with messages_on_stderr():
        logger.info("progress")
    assert capsys.readouterr().err == "progress\n"
    assert logging.getLogger("cgmcr2").level == before
    assert logging.getLogger("cgmcr2").handlers == handlers
