"""Parameters from a settings file and from options."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from cgmcr2.cli.parameters import read_parameters
from cgmcr2.training import Settings


def read(config: Path | None = None, **options: Any) -> dict[str, Any]:
    names = ("clusters", "preset", "seed", "precision", "settings")
    return read_parameters(config, **{name: options.get(name) for name in names})


def test_options() -> None:
    parameters = read(clusters="auto", preset="paper", seed=3, settings=["gamma=50", "membership = softmax", "k=9"])
    assert parameters == {
        "n_clusters": "auto",
        "preset": "paper",
        "random_state": 3,
        "settings": {"gamma": 50, "membership": "softmax"},
    }


@pytest.mark.parametrize("name", ["n_clusters", "clusters", "k"])
def test_names_of_the_number_of_clusters(name: str, tmp_path: Path) -> None:
    config = tmp_path / "settings.toml"
    config.write_text(f'{name} = 10\nseed = 2\npreset = "paper"\nprecision = "float32"\n')
    expected = {"n_clusters": 10, "random_state": 2, "preset": "paper", "precision": "float32", "settings": {}}
    assert read(config) == expected


def test_every_setting_can_be_given(tmp_path: Path) -> None:
    values = dataclasses.asdict(Settings())
    top, table = tmp_path / "top.json", tmp_path / "table.json"
    top.write_text(json.dumps(values))
    table.write_text(json.dumps({"settings": values}))
    assert read(top, clusters="3")["settings"] == values
    assert read(table, clusters="3")["settings"] == values
    options = [f"{name}={value}" for name, value in values.items()]
    assert read(clusters="3", settings=options)["settings"] == values


def test_run_json(tmp_path: Path) -> None:
    config = tmp_path / "run.json"
    parameters = {"n_clusters": 4, "random_state": 1, "settings": {"eps": 0.2}}
    config.write_text(json.dumps({"source": "x", "settings": {"eps": 0.9, "gamma": 1}, "parameters": parameters}))
    assert read(config, settings=["s=5"]) == {"n_clusters": 4, "random_state": 1, "settings": {"eps": 0.2, "s": 5}}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("k = ", "could not be read as settings"),
        ("settings = 3", "must hold names and values"),
        ("[1, 2]", "could not be read as settings"),
        ("clusterz = 3", "There is no setting named 'clusterz'; did you mean 'clusters'?"),
        ("k = 3\nhidden_dims = 3", "There is no setting named 'hidden_dims'; did you mean 'hidden_dim'?"),
        ("k = 3\nseed = -1", "integer from 0 to 2**32 - 1, but is -1"),
        ('k = 3\nprecision = "half"', "precision must be one of 'auto', 'float32', 'bfloat16', but is 'half'."),
    ],
)
def test_invalid_files(tmp_path: Path, text: str, sentence: str) -> None:
    config = tmp_path / "settings.toml"
    config.write_text(text)
    with pytest.raises(ValueError, match=r".") as error:
        read(config, clusters="3" if text.startswith("clusterz") else None)
    assert sentence in str(error.value)
