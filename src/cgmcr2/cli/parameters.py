"""The estimator's parameters, from a file of settings and from options."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, get_args

from cgmcr2 import _toml

from . import choices

# Names in a file that are parameters of the estimator; all others are training settings.
PARAMETERS = {
    "n_clusters": "n_clusters",
    "clusters": "n_clusters",
    "k": "n_clusters",
    "preset": "preset",
    "random_state": "random_state",
    "seed": "random_state",
    "precision": "precision",
}


def read_parameters(
    config: Path | None,
    *,
    clusters: str | None,
    preset: str | None,
    seed: int | None,
    precision: str | None,
    settings: list[str] | None,
    names: str | None = None,
) -> dict[str, Any]:
    """Return the parameters of ``CgMCR2``: those of the file, replaced by those of the options.

    ``n_clusters`` and ``settings`` are always among them. With ``names`` of the clusters, ``n_clusters`` is a tuple of
    them, with "auto" at the end if ``clusters`` is.
    """
    values = _read_config(config) if config else {}
    values |= _sort_names(dict(map(parse_setting, settings or [])), values.get("settings"))
    options = {"preset": preset, "random_state": seed, "precision": precision}
    values |= {name: value for name, value in options.items() if value is not None}
    if clusters is not None:
        values["n_clusters"] = _parse_clusters(clusters)
    if names is not None:
        if clusters not in (None, "auto"):
            raise ValueError(
                f"-k {clusters} and --names exclude each other; the number of clusters is that of the names, or larger "
                "with -k auto."
            )
        values["n_clusters"] = parse_names(names if clusters is None else f"{names},auto")
    if "n_clusters" not in values:
        raise ValueError("The number of clusters is missing; give it with -k, such as -k 10, or -k auto.")
    _check(values)
    return values


def parse_names(text: str) -> tuple[str, ...]:
    """Return the names in a list separated by commas.

    >>> parse_names("beach, birthday,other")
    ('beach', 'birthday', 'other')
    """
    names = tuple(name for part in text.split(",") if (name := " ".join(part.split())))
    if len(names) < 2:
        raise ValueError(f"--names {text!r} holds {len(names)} names; give at least 2, separated by commas.")
    if len({name.casefold() for name in names}) < len(names):
        raise ValueError(f"--names {text!r} holds a name twice; give each name once.")
    return names


def parse_value(text: str) -> Any:
    """Return the number, switch or word that ``text`` stands for.

    >>> parse_value("0.5"), parse_value("True"), parse_value("softmax")
    (0.5, True, 'softmax')
    """
    try:
        return json.loads(text.lower() if text.lower() in ("true", "false") else text)
    except json.JSONDecodeError:
        return text


def parse_setting(item: str) -> tuple[str, Any]:
    """Return name and value of ``NAME=VALUE``."""
    name, equals, value = item.partition("=")
    if not equals:
        raise ValueError(f"--set {item} has no value; write --set NAME=VALUE.")
    return name.strip(), parse_value(value.strip())


def _parse_clusters(text: str) -> int | str:
    if text == "auto":
        return text
    if not text.isdecimal() or int(text) < 2:
        raise ValueError(f"-k {text} is not a number of clusters; give an integer of at least 2, or auto.")
    return int(text)


def _read_config(path: Path) -> dict[str, Any]:
    """Return the parameters in a .toml file, or in the ``run.json`` of a run."""
    if not path.is_file():
        raise FileNotFoundError(f"There is no settings file {path}.")
    text = path.read_text(encoding="utf-8")
    try:
        values = json.loads(text) if path.suffix == ".json" else _toml.loads(text)
    except ValueError as error:
        raise ValueError(f"{path} could not be read as settings ({error}).") from error
    values = values.get("parameters", values) if isinstance(values, dict) else values
    settings = values.get("settings", {}) if isinstance(values, dict) else None
    if not isinstance(settings, dict):
        raise ValueError(f"{path} must hold names and values, and more of them under [settings] at most.")
    return _sort_names({name: value for name, value in values.items() if name != "settings"}, settings)


def _sort_names(values: Mapping[str, Any], settings: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Separate parameters of the estimator from training settings, which are added to ``settings``."""
    parameters = {PARAMETERS[name]: value for name, value in values.items() if name in PARAMETERS}
    others = {name: value for name, value in values.items() if name not in PARAMETERS}
    return {**parameters, "settings": {**(settings or {}), **others}}


def _check(values: Mapping[str, Any]) -> None:
    """Reject unknown names, and values that would be noticed only after the images are embedded."""
    from cgmcr2._random import seed_from

    _check_names(values["settings"])
    seed_from(values.get("random_state", 0))
    precision = values.get("precision", "auto")
    if precision not in get_args(choices.Precision):
        names = ", ".join(map(repr, get_args(choices.Precision)))
        raise ValueError(f"precision must be one of {names}, but is {precision!r}.")


def _check_names(names: Iterable[str]) -> None:
    from cgmcr2.training.settings import check_names, setting_names

    for name in names:
        similar = difflib.get_close_matches(name, PARAMETERS, n=1, cutoff=0.75)
        if similar and name not in setting_names():
            raise ValueError(f"There is no setting named {name!r}; did you mean {similar[0]!r}?")
    check_names(names)
