from __future__ import annotations

import pytest

from cgmcr2.experiments.overrides import override, quick_settings


def test_a_multiple_needs_a_value_to_multiply() -> None:
    with pytest.raises(ValueError, match="mu=x2 multiplies the default, but mu has none"):
        override({}, {"mu": "x2"})


def test_other_strings_are_values() -> None:
    assert override({"affinity": "cosine"}, {"affinity": "gaussian"}) == {"affinity": "gaussian"}


def test_quick_gcc_trains_its_clusters() -> None:
    settings = quick_settings("gcc", {})
    assert settings["pretext_epochs"] < settings["epochs"]
