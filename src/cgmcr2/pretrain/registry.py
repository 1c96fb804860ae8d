"""The methods by name, and their settings."""

from __future__ import annotations

import dataclasses
import difflib
import importlib
import inspect
import math
import numbers
from collections.abc import Iterable, Mapping
from typing import Any, Literal, get_args

from .method import Method
from .settings import Settings

MethodName = Literal["moco-v2", "simclr-tcr", "cc", "gcc", "imc-swav"]

# The classes of the methods, each in the module of the method's name.
_CLASSES = ("MocoV2", "SimclrTcr", "ContrastiveClustering", "GraphContrastiveClustering", "InformationSwav")


def method_class(name: str) -> type[Method]:
    """The class of a method.

    >>> method_class("moco-v2").__name__
    'MocoV2'
    """
    names = get_args(MethodName)
    if name not in names:
        raise ValueError(f"There is no pretraining method {name!r}; choose from {', '.join(names)}.")
    module = importlib.import_module(f"cgmcr2.pretrain.{name.replace('-', '_')}")
    kind: type[Method] = getattr(module, _CLASSES[names.index(name)])
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
            raise unknown_setting(key, name, [*common, *options])
        values[key] = convert(key, value, values[key])
    settings = Settings(**common)
    kind.check(settings, options)
    return settings, options


def unknown_setting(key: str, name: str, valid: Iterable[str]) -> ValueError:
    """The error that ``key`` is not one of the ``valid`` settings of the method ``name``."""
    valid = list(valid)
    similar = difflib.get_close_matches(key, valid, n=1)
    hint = f"did you mean {similar[0]!r}?" if similar else f"choose from {', '.join(valid)}."
    return ValueError(f"There is no setting {key!r} of {name}; {hint}")


def convert(name: str, value: Any, default: Any) -> Any:
    """``value`` as the type of ``default``."""
    if isinstance(default, (bool, str)):
        if not isinstance(value, type(default)):
            needed = "true or false" if isinstance(default, bool) else "a word"
            raise ValueError(f"{name} must be {needed}, but is {value!r}.")
        return value
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise ValueError(f"{name} must be a number, but is {value!r}.")
    number = int(value) if isinstance(value, numbers.Integral) else float(value)
    if isinstance(default, int):
        if not math.isfinite(number) or number != int(number):
            raise ValueError(f"{name} must be an integer, but is {value!r}.")
        return int(number)
    return number
