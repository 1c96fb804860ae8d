"""Progress of long loops: a bar on a terminal or in a notebook, log lines elsewhere."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, TextIO

logger = logging.getLogger("cgmcr2")


class ProgressBar:
    """Progress display that shows nothing; the base class of the displays that do."""

    def update(self, n: int = 1) -> None:
        """Add ``n`` finished units."""

    def set_postfix(self, **values: object) -> None:
        """Show ``values`` (for example the current loss) after the count."""

    def set_description(self, desc: str) -> None:
        """Change the text before the count."""

    def close(self) -> None:
        """Remove the bar, or log the final count."""

    def __enter__(self) -> ProgressBar:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def progress_bar(
    total: int | None,
    *,
    desc: str,
    unit: str,
    enabled: bool = True,
    initial: int = 0,
    stream: TextIO | None = None,
    interval: float = 5.0,
    clock: Callable[[], float] = time.monotonic,
) -> ProgressBar:
    """Return a context manager that shows how far a loop has come.

    On a terminal or in a notebook it is a tqdm bar, removed when done. Elsewhere it logs a line such as
    ``Embedding: 1,024 of 5,000 images (20 %), 82 images/s, 0:48 left`` to the logger ``cgmcr2`` with level INFO.

    Parameters
    ----------
    total : int or None
        Number of units; None if unknown.
    desc : str
        What is running, for example ``"Embedding"``.
    unit : str
        Name of the unit in the plural, for example ``"images"``; ``"B"`` for bytes, shown as kB, MB or GB.
    enabled : bool
        Whether to show anything.
    initial : int
        Units that an earlier run has finished.
    stream : text stream, optional
        Where to draw the bar; default: standard error.
    interval : float
        Least number of seconds between two log lines. A shorter loop logs nothing.
    clock : callable
        Returns the time in seconds.

    Examples
    --------
    >>> with progress_bar(3, desc="Counting", unit="numbers") as bar:
    ...     for number in range(3):
    ...         bar.update()
    """
    if not enabled:
        return ProgressBar()
    stream = stream or sys.stderr
    if (stream is not None and stream.isatty()) or "ipykernel" in sys.modules:  # stderr is None without a console
        return _TqdmBar(total, desc, unit, initial, stream)
    return _LogBar(total, desc, unit, initial, interval, clock)


class _TqdmBar(ProgressBar):
    def __init__(self, total: int | None, desc: str, unit: str, initial: int, stream: TextIO | None) -> None:
        from tqdm.auto import tqdm  # imported late: --help does not need it

        self._bar: Any = tqdm(
            total=total,
            initial=initial,
            desc=desc,
            unit=unit if unit == "B" else f" {unit}",
            unit_scale=unit == "B",
            file=stream,
            leave=False,
            dynamic_ncols=True,
        )

    def update(self, n: int = 1) -> None:
        self._bar.update(n)

    def set_postfix(self, **values: object) -> None:
        self._bar.set_postfix(values)

    def set_description(self, desc: str) -> None:
        self._bar.set_description(desc)

    def close(self) -> None:
        self._bar.close()


class _LogBar(ProgressBar):
    def __init__(
        self, total: int | None, desc: str, unit: str, initial: int, interval: float, clock: Callable[[], float]
    ) -> None:
        self._total, self._desc, self._unit, self._initial = total, desc, unit, initial
        self._interval, self._clock = interval, clock
        self._count = initial
        self._postfix = ""
        self._start = self._last_time = clock()
        self._last_count: int | None = None  # None until the first line

    def update(self, n: int = 1) -> None:
        self._count += n
        now = self._clock()
        if now - self._last_time >= self._interval:
            self._log(now)

    def set_postfix(self, **values: object) -> None:
        self._postfix = "".join(f", {name}={value}" for name, value in values.items())

    def set_description(self, desc: str) -> None:
        self._desc = desc

    def close(self) -> None:
        if self._last_count is not None and self._count != self._last_count:
            self._log(self._clock())

    def _log(self, now: float) -> None:
        self._last_time, self._last_count = now, self._count
        logger.info("%s", self._line(now - self._start))

    def _line(self, elapsed: float) -> str:
        rate = (self._count - self._initial) / elapsed if elapsed > 0 else 0.0
        line = f"{self._desc}: "
        if self._total is None:
            line += self._quantity(self._count)
        else:
            percent = 100 * self._count // self._total if self._total else 100
            line += f"{self._amount(self._count)} of {self._quantity(self._total)} ({percent} %)"
        line += f", {self._quantity(rate)}/s"
        if self._total is not None and rate > 0:
            remaining = self._total - self._count
            line += f", {_duration(remaining / rate)} left" if remaining > 0 else f", done in {_duration(elapsed)}"
        return line + self._postfix

    def _amount(self, value: float) -> str:
        if self._unit == "B":
            return _bytes(value)
        return f"{value:,.0f}" if isinstance(value, int) or value >= 10 else f"{value:.2g}"

    def _quantity(self, value: float) -> str:
        return self._amount(value) if self._unit == "B" else f"{self._amount(value)} {self._unit}"


def _bytes(value: float) -> str:
    """Return a number of bytes with its unit.

    >>> _bytes(999), _bytes(170_498_071)
    ('999 B', '170.5 MB')
    """
    for unit in ("B", "kB", "MB"):
        if value < 1000:
            return f"{value:.0f} B" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} GB"


def _duration(seconds: float) -> str:
    """Return a duration as minutes:seconds or hours:minutes:seconds.

    >>> _duration(48.2), _duration(3671)
    ('0:48', '1:01:11')
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
