"""Progress as log lines and as a bar, with a clock that the test sets."""

import io
import logging

import pytest

from cgmcr2._progress import progress_bar


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def lines(caplog):
    caplog.set_level(logging.INFO, logger="cgmcr2")
    return lambda: [record.getMessage() for record in caplog.records]


def test_log_line_has_count_percentage_rate_and_time_left(clock, lines):
    with progress_bar(5000, desc="Embedding", unit="images", stream=io.StringIO(), clock=clock) as bar:
        clock.now = 12.5
        bar.update(1024)
        assert lines() == ["Embedding: 1,024 of 5,000 images (20 %), 82 images/s, 0:49 left"]


def test_log_lines_are_at_least_interval_seconds_apart(clock, lines):
    with progress_bar(100, desc="Training", unit="steps", stream=io.StringIO(), interval=5, clock=clock) as bar:
        for second in range(1, 21):
            clock.now = float(second)
            bar.update(5)
    assert [line.partition(" of")[0] for line in lines()] == [f"Training: {count}" for count in (25, 50, 75, 100)]


def test_the_final_line_gives_the_duration(clock, lines):
    with progress_bar(20, desc="Training", unit="steps", stream=io.StringIO(), clock=clock) as bar:
        clock.now = 60.0
        bar.update(10)
        clock.now = 62.0
        bar.update(10)
    assert lines()[-1] == "Training: 20 of 20 steps (100 %), 0.32 steps/s, done in 1:02"


def test_a_short_loop_logs_nothing(clock, lines):
    with progress_bar(10, desc="Training", unit="steps", stream=io.StringIO(), clock=clock) as bar:
        clock.now = 4.9
        bar.update(10)
    assert lines() == []


def test_an_interrupted_loop_logs_its_last_count_and_no_duration(clock, lines):
    def train() -> None:
        with progress_bar(100, desc="Training", unit="steps", stream=io.StringIO(), clock=clock) as bar:
            clock.now = 10.0
            bar.update(10)
            clock.now = 11.0
            bar.update(1)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train()
    assert lines()[-1] == "Training: 11 of 100 steps (11 %), 1 steps/s, 1:29 left"


def test_units_of_an_earlier_run_count_but_do_not_raise_the_rate(clock, lines):
    with progress_bar(100, desc="Embedding", unit="images", initial=50, stream=io.StringIO(), clock=clock) as bar:
        clock.now = 10.0
        bar.update(20)
        assert lines() == ["Embedding: 70 of 100 images (70 %), 2 images/s, 0:15 left"]


def test_unknown_total_and_bytes(clock, lines):
    with progress_bar(None, desc="Downloading a.zip", unit="B", stream=io.StringIO(), clock=clock) as bar:
        clock.now = 10.0
        bar.update(25_000_000)
    assert lines() == ["Downloading a.zip: 25.0 MB, 2.5 MB/s"]


def test_postfix_and_description_appear_in_the_line(clock, lines):
    with progress_bar(10, desc="Training", unit="steps", stream=io.StringIO(), clock=clock) as bar:
        bar.set_description("Warm-up")
        bar.set_postfix(loss="-1.25", clusters=10)
        clock.now = 5.0
        bar.update(5)
        assert lines() == ["Warm-up: 5 of 10 steps (50 %), 1 steps/s, 0:05 left, loss=-1.25, clusters=10"]


def test_a_terminal_shows_a_bar_and_logs_nothing(clock, lines):
    terminal = Terminal()
    with progress_bar(10, desc="Training", unit="steps", stream=terminal, clock=clock) as bar:
        clock.now = 100.0
        bar.update(10)
        bar.set_postfix(loss=3)
        bar.set_description("Fine-tuning")
    for text in ("Training", "Fine-tuning", "loss=3", "10/10"):
        assert text in terminal.getvalue()
    assert lines() == []


def test_disabled_progress_shows_nothing_anywhere(clock, lines):
    terminal = Terminal()
    with progress_bar(10, desc="Training", unit="steps", enabled=False, stream=terminal, clock=clock) as bar:
        clock.now = 100.0
        bar.update(10)
        bar.set_postfix(loss=3)
        bar.set_description("Fine-tuning")
    assert terminal.getvalue() == ""
    assert lines() == []
