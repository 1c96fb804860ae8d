"""The methods by name, and their settings."""

from __future__ import annotations

import dataclasses
import difflib
import importlib
import inspect
from collections.abc import Mapping
from typing import Any, Literal, get_args

from .method import Method
from .settings import Settings

MethodName = Literal["moco-v2", "simclr-tcr", "cc", "gcc", "imc-swav"]

_CLASSES: dict[str, str] = {  # in the module of the same name
    "moco-v2": "MocoV2",
    "simclr-tcr": "SimclrTcr",
    "cc": "ContrastiveClustering",
    "gcc": "GraphContrastiveClustering",
    "imc-swav": "InformationSwav",
}


def method_class(name: str) -> type[Method]:
    """The class of a method.

    >>> method_class("moco-v2").__name__
    'MocoV2'
    """
    if name not in _CLASSES:
        raise ValueError(f"There is no pretraining method {name!r}; choose from {', '.join(get_args(MethodName))}.")
    module = importlib.import_module(f"cgmcr2.pretrain.{name.replace('-', '_')}")
    kind: type[Method] = getattr(module, _CLASSES[name])
    return kind


def resolve(name: str, overrides: Mapping[str, Any] | None = None) -> tuple[Settings, dict[str, Any]]:
    """The settings of the loop and the options of a method, with ``overrides`` of either by name.

    >>> settings, options = resolve("moco-v2", {"epochs": 10, "queue": 512})
    >>> settings.epochs, options["queue"], options["temperature"]
    (10, 512, 0.1)
    >>> resolve("moco-v2", {"que": 512})
    Traceback (most recent call last):
        ...
    ValueError: There is no setting 'que' of moco-v2; did you mean 'queue'?
    """
    kind = method_class(name)
    parameters = inspect.signature(kind).parameters.values()
    options = {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY}
    common: dict[str, Any] = {field.name: field.default for field in dataclasses.fields(Settings)} | dict(kind.defaults)
    for key, value in (overrides or {}).items():
        values = options if key in options else common
        if key not in values:
            similar = difflib.get_close_matches(key, [*options, *common], n=1)
            hint = f"did you mean {similar[0]!r}?" if similar else f"choose from {', '.join([*common, *options])}."
            raise ValueError(f"There is no setting {key!r} of {name}; {hint}")
        values[key] = convert(key, value, values[key])
    settings = Settings(**common)
    kind.check(settings, options)
    return settings, options


def convert(name: str, value: Any, default: Any) -> Any:
    """``value`` as the type of ``default``."""
    if isinstance(default, (bool, str)):
        if not isinstance(value, type(default)):
            needed = "true or false" if isinstance(default, bool) else "a word"
            raise ValueError(f"{name} must be {needed}, but is {value!r}.")
        return value
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError(f"{name} must be a number, but is {value!r}.")
    if isinstance(default, int):
        if value != int(value):
            raise ValueError(f"{name} must be an integer, but is {value!r}.")
        return int(value)
    return value
