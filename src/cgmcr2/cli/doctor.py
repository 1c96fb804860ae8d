"""``cgmcr2 doctor``: versions, device and optional packages."""

from __future__ import annotations

import platform
from importlib import metadata, util

import typer

from . import options
from .output import print_json

EPILOG = """\b
Examples:
  cgmcr2 doctor
  cgmcr2 doctor --json
"""
CORE = ("torch", "numpy", "scipy", "scikit-learn", "pillow", "safetensors")
EXTRAS = {
    "clip": ("transformers",),
    "viz": ("matplotlib", "umap"),
    "tune": ("optuna",),
    "table": ("pyarrow", "pandas"),
    "onnx": ("onnx", "onnxruntime", "onnxscript"),
    "photos": ("pillow_heif",),
    "log": ("tensorboard",),
}


def doctor(as_json: options.Json = False) -> None:
    """Show versions, the device and the optional packages."""
    import torch

    from cgmcr2 import __version__
    from cgmcr2._device import choose_device, supports_bfloat16

    device = choose_device()
    bfloat16, threads = supports_bfloat16(device), torch.get_num_threads()
    system = f"{platform.system()} {platform.machine()}"
    packages = {name: _version(name) for name in CORE}
    missing = {extra: [name for name in modules if util.find_spec(name) is None] for extra, modules in EXTRAS.items()}
    if as_json:
        versions = {"cgmcr2": __version__, "python": platform.python_version(), "system": system, "packages": packages}
        hardware = {"device": str(device), "bfloat16": bfloat16, "threads": threads}
        print_json({**versions, **hardware, "missing": missing})
        return
    typer.echo(f"cgmcr2 {__version__}, Python {platform.python_version()}, {system}")
    typer.echo(", ".join(f"{name} {version or 'missing'}" for name, version in packages.items()))
    typer.echo(f"device {device}, bfloat16 {'supported' if bfloat16 else 'not supported'}, {threads} threads")
    for extra, names in missing.items():
        state = f"{', '.join(names)} missing: pip install 'cgmcr2[{extra}]'" if names else "installed"
        typer.echo(f"[{extra}] {state}")


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
