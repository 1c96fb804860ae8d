from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from cgmcr2.training.settings import Settings, check_names, choices, setting_names


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"gamma": "abc"}, "gamma must be a number, but is 'abc'"),
        ({"gamma": True}, "gamma must be a number, but is True"),
        ({"hidden_dim": 2.5}, "hidden_dim must be an integer, but is 2.5"),
        ({"hidden_dim": float("nan")}, "hidden_dim must be an integer, but is nan"),
        ({"cut_in_finetuning": 1}, "cut_in_finetuning must be true or false, but is 1"),
        ({"graph": "all"}, "graph must be one of 'batch', 'whole', but is 'all'"),
        ({"lr": float("inf")}, "lr must be a number above 0"),
        ({"sample": -1}, "sample must be at least 0"),
    ],
)
def test_invalid_values_are_one_sentence(values: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        Settings(**values)


def test_an_unknown_name_suggests_a_similar_one() -> None:
    with pytest.raises(ValueError, match="There is no setting named 'gama'; did you mean 'gamma'"):
        check_names(["lr", "gama"])
    with pytest.raises(ValueError, match="no setting named 'xyzzy'; choose from hidden_dim"):
        check_names(["xyzzy"])


def test_names_and_choices_follow_from_the_dataclass() -> None:
    assert setting_names() == tuple(field.name for field in dataclasses.fields(Settings))
    assert choices("affinity") == ("cosine_topk", "gaussian", "doubly_stochastic", "cosine")
    assert choices("gamma") == ()
