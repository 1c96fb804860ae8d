"""Fixtures and settings that all tests share."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest

from .browser import Browser, find_browser

SHARED_DATA = Path(__file__).resolve().parents[2] / "shared" / "data"

hypothesis.settings.register_profile("cgmcr2", deadline=None)  # a busy machine must not fail a test
hypothesis.settings.load_profile("cgmcr2")


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real feature sets and photos; the test is skipped if it is missing."""
    if not SHARED_DATA.is_dir():
        pytest.skip("the real data sets (../shared/data) are not on this machine")
    return SHARED_DATA


@pytest.fixture(scope="session", autouse=True)
def forced_precision() -> Iterator[None]:
    """Run the suite as on a CPU with or without bfloat16: CGMCR2_TEST_PRECISION=bfloat16 or float32."""
    name = os.environ.get("CGMCR2_TEST_PRECISION")
    if not name:
        yield
        return
    if name not in ("bfloat16", "float32"):
        raise ValueError(f"CGMCR2_TEST_PRECISION must be bfloat16 or float32, but is {name!r}.")
    from cgmcr2 import _device

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_device, "supports_bfloat16", lambda device: name == "bfloat16")
        patch.setattr(_device, "WIDE", 1)  # "auto" then chooses by the CPU alone, whatever the width
        yield


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """Headless Chromium; the test is skipped if it is not installed."""
    program = find_browser()
    if program is None:
        pytest.skip("Chromium is not installed (Debian: apt install chromium)")
    chromium = Browser(program, tmp_path_factory.mktemp("profile"))
    yield chromium
    chromium.close()
